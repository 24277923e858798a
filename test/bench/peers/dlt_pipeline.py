"""The same work with dlt: its REST API source into DuckDB, Parquet as load files, merged by id as its documentation says.

Attributes become columns and nested values stay JSON, as in the other programs: tables for nested lists would cost dlt more.
Arguments: URL, index, tenant, page size, database, folder. The token comes from the environment.
"""

import os
import sys

import dlt
from dlt.sources.rest_api import rest_api_source

url, index, tenant, page_size, database, folder = sys.argv[1:]


def with_columns(record):
    return {"id": record["id"], "index_id": record["index_id"], **record["attributes"]}


source = rest_api_source(
    {
        "client": {
            "base_url": url,
            "headers": {"service-tenant": tenant, "api-version": "2025-07-31"},
            "auth": {"type": "bearer", "token": os.environ["PEERS_TOKEN"]},
            "paginator": {"type": "cursor", "cursor_path": "next_token", "cursor_param": "next_token"},
        },
        "resources": [
            {
                "name": "members",
                "primary_key": "id",
                "write_disposition": "merge",
                "processing_steps": [{"map": with_columns}],
                "endpoint": {
                    "path": f"/api/indexes/{index}/profiles",
                    "params": {"limit": int(page_size)},
                    "data_selector": "data",
                },
            }
        ],
    },
    name="members",
    max_table_nesting=0,
)
pipeline = dlt.pipeline(
    pipeline_name="members",
    pipelines_dir=folder,
    destination=dlt.destinations.duckdb(database),
    dataset_name="peers",
)
pipeline.run(source, loader_file_format="parquet").raise_on_failed_jobs()
