"""The bucket: where tenants put their tasks and find what became of them.

`Bucket(url, options)` works on any fsspec URL. `Bucket.scan()` turns its files into one `Listing` per
task folder, per `infer/<request>` folder and per `control.json`; what fits nowhere becomes a `Stray`.
"""

from easeml_core.bucket.bucket import Bucket
from easeml_core.bucket.entries import Entry, Kind, Listing, Scan, Stray

__all__ = ["Bucket", "Entry", "Kind", "Listing", "Scan", "Stray"]
