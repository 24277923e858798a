"""The nightly job of cdsync for each tenant. A held result fails its task at once: a person decides."""

import json
import os
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

from airflow.decorators import dag, task
from airflow.exceptions import AirflowException, AirflowFailException

FOLDER = Path("/srv/jobs")
NEEDS_A_PERSON = {2, 3, 4}


@dag(schedule="15 2 * * *", start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=1)
def cdsync_fleet():
    @task(retries=2, retry_delay=timedelta(minutes=15), max_active_tis_per_dagrun=10)
    def run(tenant: str) -> dict:
        secrets = dict(line.split("=", 1) for line in Path(FOLDER, "secrets", f"{tenant}.env").read_text().splitlines())
        ended = subprocess.run(
            ["npx", "--no-install", "cdsync", "run", "fleet.yaml", "--json", "--log-format", "json"],
            cwd=FOLDER, env={**os.environ, **secrets, "TENANT": tenant}, stdout=subprocess.PIPE, text=True, check=False,
        )
        report = json.loads(ended.stdout)
        if ended.returncode in NEEDS_A_PERSON:
            raise AirflowFailException(f"{tenant}: {report['status']} ({ended.returncode})")
        if ended.returncode != 0:
            raise AirflowException(f"{tenant}: {report['status']} ({ended.returncode})")
        return {stream["name"]: stream["rows"] for job in report["jobs"] for stream in job["streams"]}

    run.expand(tenant=Path(FOLDER, "tenants.txt").read_text().split())


cdsync_fleet()
