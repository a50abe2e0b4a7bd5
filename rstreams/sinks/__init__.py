"""The subscribers behind the terminals of a stream: plain signals in, one callback out.

Each sink gets a function `on_change`. It calls the function when its terminal has something to do: the subscription has
ended, the outstanding demand is so low that more should be requested, or an awaited item has come. Then the terminal's
task looks at the sink's attributes. Therefore a sink never waits, and it does not know trio.

A terminal requests from its own task and never inside `on_next`. Otherwise a synchronous source would go on for ever
inside one call, and no other task would run. Some sources answer later, such as a link, whose window bounds the items
under way. From them a sink that takes all items requests all at once.
"""
