"""rstreams.aio in frameworks of asyncio; docs/guides/asyncio.md tells of them."""
