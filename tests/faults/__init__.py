"""Faults of a real service: processes killed, stopped and blocked, databases killed, disks full, clocks apart."""
