"""Makes the bucket that MLflow's artifacts go to, if it is not there; waits up to a minute for the store."""

import os
import time

import boto3
from botocore.exceptions import ClientError, EndpointConnectionError

store = boto3.client("s3")
bucket = os.environ["S3_BUCKET"]
end = time.monotonic() + 60
while True:
    try:
        store.create_bucket(Bucket=bucket)
        break
    except ClientError as error:
        if error.response["Error"]["Code"] in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
            break
        raise
    except EndpointConnectionError:
        if time.monotonic() > end:
            raise
        time.sleep(1)
