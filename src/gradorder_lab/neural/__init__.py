"""The neural half: networks trained by Algorithms 3 and 4 and by random reshuffling, epoch by epoch."""
