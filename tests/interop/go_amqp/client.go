// An AMQP client of go-amqp, which does one thing and ends: `client URL WHAT ADDRESS`. Each event is one line of JSON on
// standard output. Containers and links have names of their own, so that two runs say the same bytes.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	amqp "github.com/Azure/go-amqp"
)

type fields map[string]any

func tell(event string, more fields) {
	line := fields{"event": event}
	for name, value := range more {
		line[name] = value
	}
	text, err := json.Marshal(line)
	check(err)
	fmt.Println(string(text))
}

// check ends the program: an error that a test expects is told before, by failed.
func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// failed tells an error with the condition that the peer gave.
func failed(event string, err error) {
	var link *amqp.LinkError
	var told *amqp.Error
	switch {
	case err == nil:
		tell(event, fields{"error": nil})
		return
	case errors.As(err, &link) && link.RemoteErr != nil:
		told = link.RemoteErr
	case errors.As(err, &link) && link.RemoteErr == nil:
		tell(event, fields{"error": err.Error(), "condition": nil})
		return
	default:
		errors.As(err, &told)
	}
	if told == nil {
		tell(event, fields{"error": err.Error()})
		return
	}
	tell(event, fields{"error": err.Error(), "condition": string(told.Condition), "description": told.Description})
}

type client struct {
	ctx     context.Context
	session *amqp.Session
	address string
}

func (c client) receiver(options *amqp.ReceiverOptions) *amqp.Receiver {
	options.Name = "receives"
	receiver, err := c.session.NewReceiver(c.ctx, c.address, options)
	check(err)
	return receiver
}

func (c client) sender(options *amqp.SenderOptions) *amqp.Sender {
	options.Name = "sends"
	sender, err := c.session.NewSender(c.ctx, c.address, options)
	check(err)
	return sender
}

func (c client) next(receiver *amqp.Receiver) *amqp.Message {
	message, err := receiver.Receive(c.ctx, nil)
	check(err)
	body := message.Value
	size := 0
	if data := message.GetData(); data != nil {
		size = len(data)
		body = string(data[:min(size, 20)])
	}
	count := uint32(0)
	if message.Header != nil {
		count = message.Header.DeliveryCount
	}
	tell("message", fields{
		"body": body, "size": size, "count": count, "format": message.Format,
		"properties": message.ApplicationProperties,
	})
	return message
}

// all receives to the end of the stream, with credit renewed by go-amqp.
func (c client) all() {
	receiver := c.receiver(&amqp.ReceiverOptions{Credit: 10})
	for {
		message, err := receiver.Receive(c.ctx, nil)
		if err != nil {
			failed("end", err)
			return
		}
		tell("message", fields{"body": message.Value, "size": len(message.GetData())})
		_ = receiver.AcceptMessage(c.ctx, message) // which fails behind the peer's detach
	}
}

// outcomes gives the first four messages one outcome each.
func (c client) outcomes() {
	receiver := c.receiver(&amqp.ReceiverOptions{Credit: -1})
	check(receiver.IssueCredit(4))
	check(receiver.AcceptMessage(c.ctx, c.next(receiver)))
	rejection := &amqp.Error{Condition: "rstreams:bad-item", Description: "number two"}
	check(receiver.RejectMessage(c.ctx, c.next(receiver), rejection))
	check(receiver.ReleaseMessage(c.ctx, c.next(receiver)))
	failure := &amqp.ModifyMessageOptions{DeliveryFailed: true, UndeliverableHere: true}
	check(receiver.ModifyMessage(c.ctx, c.next(receiver), failure))
	check(receiver.Close(c.ctx))
}

// fails gives a message back until it comes with a count of two, and accepts it then.
func (c client) fails() {
	receiver := c.receiver(&amqp.ReceiverOptions{Credit: -1})
	for count := range 3 {
		check(receiver.IssueCredit(1))
		message := c.next(receiver)
		if count == 2 {
			check(receiver.AcceptMessage(c.ctx, message))
		} else {
			check(receiver.ModifyMessage(c.ctx, message, &amqp.ModifyMessageOptions{DeliveryFailed: true}))
		}
	}
	check(receiver.Close(c.ctx))
}

// receivesMixed asks for deliveries that may be settled or not.
func (c client) receivesMixed() {
	receiver := c.receiver(&amqp.ReceiverOptions{
		Credit: 10, SettlementMode: amqp.ReceiverSettleModeFirst.Ptr(),
		RequestedSenderSettleMode: amqp.SenderSettleModeMixed.Ptr(),
	})
	for range 3 {
		check(receiver.AcceptMessage(c.ctx, c.next(receiver)))
	}
	check(receiver.Close(c.ctx))
}

// receivesSettled asks for deliveries that are settled.
func (c client) receivesSettled() {
	receiver := c.receiver(&amqp.ReceiverOptions{
		Credit: 10, RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr(),
	})
	for range 3 {
		check(receiver.AcceptMessage(c.ctx, c.next(receiver))) // which says nothing to the peer
	}
	check(receiver.Close(c.ctx))
}

// receivesSecond waits for the sender to settle what it has accepted; the attach may fail instead.
func (c client) receivesSecond() {
	receiver, err := c.session.NewReceiver(c.ctx, c.address, &amqp.ReceiverOptions{
		Name: "receives", Credit: 10, SettlementMode: amqp.ReceiverSettleModeSecond.Ptr(),
	})
	failed("attached", err)
	if err != nil {
		return
	}
	for range 3 {
		check(receiver.AcceptMessage(c.ctx, c.next(receiver)))
		tell("settled", nil)
	}
	check(receiver.Close(c.ctx))
}

// sends waits for the outcome of each message.
func (c client) sends() {
	sender := c.sender(&amqp.SenderOptions{})
	for number := range 20 {
		failed("sent", sender.Send(c.ctx, &amqp.Message{Value: int64(number)}, nil))
	}
	check(sender.Close(c.ctx))
}

// sendsMixed asks for a link whose deliveries may be settled or not, and sends both kinds.
func (c client) sendsMixed() {
	sender := c.sender(&amqp.SenderOptions{
		SettlementMode:              amqp.SenderSettleModeMixed.Ptr(),
		RequestedReceiverSettleMode: amqp.ReceiverSettleModeFirst.Ptr(),
	})
	for number := range 4 {
		options := &amqp.SendOptions{Settled: number%2 == 1}
		failed("sent", sender.Send(c.ctx, &amqp.Message{Value: int64(number)}, options))
	}
	check(sender.Close(c.ctx))
}

// large sends one message of many frames.
func (c client) large() {
	sender := c.sender(&amqp.SenderOptions{})
	failed("sent", sender.Send(c.ctx, amqp.NewMessage(bytes.Repeat([]byte("abc"), 1_000_000)), nil))
	check(sender.Close(c.ctx))
}

// batch sends two messages as one, in the format that Azure's services know.
func (c client) batch() {
	sender := c.sender(&amqp.SenderOptions{})
	batch := &amqp.Message{Format: 0x80013700}
	for _, body := range []string{"one", "two"} {
		encoded, err := amqp.NewMessage([]byte(body)).MarshalBinary()
		check(err)
		batch.Data = append(batch.Data, encoded)
	}
	failed("sent", sender.Send(c.ctx, batch, nil))
	failed("closed", sender.Close(c.ctx))
}

// asks sends requests that are answered to an address that the peer makes.
func (c client) asks() {
	receiver, err := c.session.NewReceiver(c.ctx, "", &amqp.ReceiverOptions{
		Name: "receives", Credit: 10, DynamicAddress: true,
	})
	check(err)
	sender := c.sender(&amqp.SenderOptions{})
	replyTo := receiver.Address()
	for _, item := range []string{"tea", "milk"} {
		request := &amqp.Message{
			Value: item, Properties: &amqp.MessageProperties{MessageID: item, ReplyTo: &replyTo},
		}
		check(sender.Send(c.ctx, request, nil))
		reply, err := receiver.Receive(c.ctx, nil)
		check(err)
		check(receiver.AcceptMessage(c.ctx, reply))
		tell("reply", fields{"body": reply.Value, "to": reply.Properties.CorrelationID})
	}
}

// refused attaches both kinds of link to an address that refuses them.
func (c client) refused() {
	_, err := c.session.NewReceiver(c.ctx, c.address, nil)
	failed("receiver", err)
	_, err = c.session.NewSender(c.ctx, c.address, nil)
	failed("sender", err)
}

var things = map[string]func(client){
	"all": client.all, "outcomes": client.outcomes, "fails": client.fails, "receives-mixed": client.receivesMixed,
	"receives-settled": client.receivesSettled, "receives-second": client.receivesSecond, "sends": client.sends,
	"sends-mixed": client.sendsMixed, "large": client.large, "batch": client.batch, "asks": client.asks,
	"refused": client.refused,
}

func main() {
	url, what, address := os.Args[1], os.Args[2], os.Args[3]
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	connection, err := amqp.Dial(ctx, url, &amqp.ConnOptions{ContainerID: "go-amqp"})
	if err != nil {
		failed("connection", err)
		os.Exit(3)
	}
	session, err := connection.NewSession(ctx, nil)
	check(err)
	things[what](client{ctx, session, address})
	check(connection.Close())
}
