/**
 * The width of a help text, in place of the package `string-width`, which yargs uses. Help texts have no wide characters; the package
 * compiles the patterns of all emoji, which takes longer than all else that `cdsync --help` does.
 */
export default function stringWidth(text) {
  return text.length;
}
