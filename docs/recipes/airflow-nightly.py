"""The nightly job of cdsync. A result that a guard holds fails the task at once: a person decides."""

import json
import subprocess
from datetime import datetime, timedelta

from airflow.decorators import dag, task
from airflow.exceptions import AirflowException, AirflowFailException


@dag(schedule="15 2 * * *", start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=1)
def cdsync_nightly():
    @task(retries=2, retry_delay=timedelta(minutes=15))
    def run() -> dict:
        ended = subprocess.run(
            ["npx", "--no-install", "cdsync", "run", "nightly.yaml", "--json", "--log-format", "json"],
            cwd="/srv/jobs", stdout=subprocess.PIPE, text=True, check=False,
        )
        report = json.loads(ended.stdout)
        if ended.returncode != 0 and not report["retry"]:
            raise AirflowFailException(f"cdsync: {report['status']} ({ended.returncode})")
        if ended.returncode != 0:
            raise AirflowException(f"cdsync: {report['status']} ({ended.returncode})")
        return {stream["name"]: stream["rows"] for job in report["jobs"] for stream in job["streams"]}

    run()


cdsync_nightly()
