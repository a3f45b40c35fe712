"""The stores: one contract for all of them, and what each of them promises beyond it."""
