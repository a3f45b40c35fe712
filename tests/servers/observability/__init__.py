"""Tests of logs, metrics, traces and the watchdog."""
