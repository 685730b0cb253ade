"""Print the hot parameters that the switch of a run reports."""

import asyncio

from controller.controller import Controller


async def main() -> None:
    async with Controller(design="mine.hot") as controller:
        async for report in controller.digests("report_t"):
            print(f"parameter {report['key']} has had {report['updates']} updates")


if __name__ == "__main__":
    asyncio.run(main())
