"""`python -m harness`."""

import sys

from harness.core.run_folders import leave_run_folder_out

leave_run_folder_out(sys.path)

from harness.cli.app import main  # noqa: E402 - only now are modules not looked for in a run folder

if __name__ == "__main__":
    main()
