"""The message models, one file per noun. They check shapes only; decisions are made in `core`."""
