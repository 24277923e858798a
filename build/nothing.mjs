/** In place of modules that bundled packages load and that cdsync never uses. */
export const constants = {};
export default function nothing() {
  return undefined;
}
