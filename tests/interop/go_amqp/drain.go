//go:build drain

package main

import amqp "github.com/Azure/go-amqp"

// What go-amqp can do from 1.1 on: Debian's 1.0.2 has no DrainCredit.
func init() { things["drains"] = client.drains }

// drains uses up its credit and drains; asks for more than there is and drains; and receives again after that.
func (c client) drains() {
	receiver := c.receiver(&amqp.ReceiverOptions{Credit: -1})
	check(receiver.IssueCredit(3))
	for range 3 {
		check(receiver.AcceptMessage(c.ctx, c.next(receiver)))
	}
	check(receiver.DrainCredit(c.ctx, nil))
	tell("drained", fields{"left": 0})
	check(receiver.IssueCredit(5))
	check(receiver.AcceptMessage(c.ctx, c.next(receiver)))
	check(receiver.DrainCredit(c.ctx, nil))
	tell("drained", fields{"left": 4})
	check(receiver.IssueCredit(1))
	tell("again", nil)
	check(receiver.AcceptMessage(c.ctx, c.next(receiver)))
	check(receiver.Close(c.ctx))
}
