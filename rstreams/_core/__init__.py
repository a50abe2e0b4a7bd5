"""The ground floor of the streams: demand, holds, sight, fast paths, and the checks that all stages share."""
