"""The revisions, one file each, in the order that their `down_revision` tells."""
