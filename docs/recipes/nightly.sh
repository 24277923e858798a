#!/bin/sh
cd "$(dirname "$0")" || exit 1
report=$(node_modules/.bin/cdsync run nightly.yaml --env-file .env --quiet --json 2> nightly.err)
code=$?
{ printf '%s\n' "$report"; cat nightly.err; } >> nightly.log
case $code,$report in
  0,* | 75,* | 130,*) ;;
  3,*) echo 'A guard holds what was read. Look at it, then approve or discard it.'; cat nightly.err ;;
  *'"retry":false'*) echo 'It will fail every night until its cause is removed.'; cat nightly.err; code=100 ;;
  *) echo 'It failed; the next run tries again.'; cat nightly.err ;;
esac
exit $code
