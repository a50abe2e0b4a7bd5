"""What all stages share: demand, holds, sight, fast paths, turns."""
