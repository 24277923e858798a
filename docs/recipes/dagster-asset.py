"""The streams of the nightly job of cdsync, as assets."""

import json
import subprocess

from dagster import AssetSpec, Failure, MaterializeResult, multi_asset

STREAMS = ["members"]


@multi_asset(specs=[AssetSpec(name, group_name="cdsync") for name in STREAMS])
def cdsync_nightly():
    ended = subprocess.run(
        ["npx", "--no-install", "cdsync", "run", "nightly.yaml", "--json", "--log-format", "json"],
        cwd="/srv/jobs", stdout=subprocess.PIPE, text=True, check=False,
    )
    report = json.loads(ended.stdout)
    if ended.returncode != 0:
        raise Failure(f"cdsync: {report['status']} ({ended.returncode})", allow_retries=report["retry"])
    for job in report["jobs"]:
        for stream in job["streams"]:
            if stream["name"] in STREAMS:
                counts = {name: stream[name] for name in ("rows", "inserted", "updated", "deleted")}
                yield MaterializeResult(asset_key=stream["name"], metadata={**counts, "run_id": job["run_id"]})
