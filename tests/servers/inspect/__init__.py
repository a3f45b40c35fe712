"""Tests of inspecting real agents in processes of their own."""
