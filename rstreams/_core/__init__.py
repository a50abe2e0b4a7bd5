"""The modules that all stages use: demand, holds, sight, fast paths, turns."""
