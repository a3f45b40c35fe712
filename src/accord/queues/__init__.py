"""What connects several processes of one service: channels, the queue of turns, and the log of live packets."""
