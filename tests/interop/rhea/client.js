// An AMQP client of rhea, which does one thing and ends: `node client.js RHEA PORT WHAT ADDRESS [USER PASSWORD]`. Each
// event is one line of JSON on standard output.
'use strict';

const rhea = require(process.argv[2]);
const [port, what, address, username, password] = process.argv.slice(3);
const { message, types } = rhea;
const { replies_to, pour } = require('./replies.js');

function tell(event, more) {
    console.log(JSON.stringify({ event, ...more }));
}

const [thing, ...details] = what.split(':'); // such as log:first
const container = rhea.create_container({ id: 'rhea-' + thing });
for (const end of ['sender_error', 'receiver_error', 'session_error', 'connection_error']) {
    container.on(end, (context) => {
        const error = (context.sender || context.receiver || context.session || context.connection).error;
        tell(end, { condition: error && error.condition, description: error && error.description });
    });
}
container.on('connection_error', () => { process.exitCode = 3; });
for (const end of ['sender_close', 'receiver_close']) {
    container.on(end, ({ connection }) => { tell(end); connection.close(); });
}
container.on('disconnected', ({ error }) => {
    tell('disconnected', { message: error && error.message });
    process.exit(3);
});
container.on('connection_close', () => process.exit());

function receives(options, on_message) {
    let received = 0;
    container.on('message', (context) => {
        const { message: came, receiver, delivery } = context;
        received += 1;
        const body = came.body && came.body.content !== undefined ? came.body.content : came.body;
        tell('message', {
            body: Buffer.isBuffer(body) ? body.toString('latin1').slice(0, 20) : body,
            size: Buffer.isBuffer(body) ? body.length : undefined, is_data: came.body && came.body.typecode === 0x75,
            settled: delivery.remote_settled, properties: came.application_properties, subject: came.subject,
            id: came.message_id, count: came.delivery_count || 0,
        });
        on_message(context, received, receiver);
    });
    container.on('connection_open', ({ connection }) => {
        connection.open_receiver({ source: address, credit_window: 0, autoaccept: false, ...options });
    });
}

function sends(messages, options, on_settled) {
    let sent = 0, settled = 0;
    const all = messages.length;
    container.on('connection_open', ({ connection }) => connection.open_sender({ target: address, ...options }));
    container.on('sendable', ({ sender }) => {
        tell('credit', { credit: sender.credit });
        while (sender.sendable() && sent < all) sender.send(messages[sent++]);
    });
    for (const outcome of ['accepted', 'rejected', 'released', 'modified']) {
        container.on(outcome, ({ delivery }) => {
            const state = delivery.remote_state || {}, error = state.error || {};
            tell(outcome, {
                condition: error.condition, description: error.description, failed: state.delivery_failed,
                undeliverable: state.undeliverable_here,
            });
        });
    }
    container.on('settled', ({ sender, connection }) => {
        settled += 1;
        if (settled < all) return;
        tell('settled', { sent });
        if (on_settled) on_settled(sender);
        else { sender.close(); connection.close(); }
    });
}

function asks(requests, { credit, source, on_reply }) { // for replies to an address that the peer makes
    let replies = 0;
    container.on('connection_open', ({ connection }) => {
        connection.open_receiver({ source: { dynamic: true, ...source }, credit_window: 0 });
    });
    container.on('receiver_open', ({ receiver, connection }) => {
        receiver.add_credit(credit);
        const sender = connection.open_sender(address);
        sender.once('sendable', () => {
            for (const request of requests) sender.send({ ...request, reply_to: receiver.source.address });
        });
    });
    container.on('message', ({ message: came, receiver, connection }) => {
        replies += 1;
        tell('reply', { body: came.body, to: came.correlation_id, properties: came.application_properties });
        on_reply(replies, receiver, connection);
    });
}

const numbers = (count) => Array.from({ length: count }, (_, number) => ({ body: number }));

const things = {
    credit() { // five, then three more, then all there is
        container.on('receiver_open', ({ receiver }) => receiver.add_credit(5));
        receives({}, ({ delivery, connection }, received, receiver) => {
            delivery.accept();
            if (received === 5) receiver.add_credit(3);
            if (received === 8) {
                tell('eight', { credit: receiver.credit });
                receiver.add_credit(20);
                receiver.drain_credit();
            }
        });
        container.on('receiver_drained', ({ receiver, connection }) => {
            tell('drained', { credit: receiver.credit });
            receiver.close();
            connection.close();
        });
    },
    all() {
        container.on('receiver_open', ({ receiver }) => receiver.add_credit(1000));
        receives({}, ({ delivery }) => delivery.accept());
    },
    some(most, end, options) { // accepts so many, and detaches the link, closes it, or only closes the connection
        container.on('receiver_open', ({ receiver, connection }) => {
            const { address, durable, expiry_policy } = receiver.source;
            tell('source', { address, durable, expiry_policy });
            if (Number(most) > 0) receiver.add_credit(Number(most));
            else connection.close();
        });
        receives(options || {}, ({ delivery, connection }, received, receiver) => {
            delivery.accept();
            if (received < Number(most)) return;
            if (end === 'close') receiver.close(); // the node's answer closes the connection
            else if (end === 'detach') receiver.detach();
            else connection.close();
        });
        container.on('receiver_detached', ({ connection }) => { tell('receiver_detached'); connection.close(); });
    },
    log(most, start) {
        const name = 'rabbitmq:stream-offset-spec';
        const value = /^[0-9]+$/.test(start) ? types.wrap_ulong(Number(start)) : types.wrap_symbol(start);
        const filter = { [name]: types.wrap_described(value, name) };
        things.some(most, 'close', { source: { address, filter } });
    },
    durable(most, end) {
        things.some(most, end, { name: 'billing', source: { address, durable: 2, expiry_policy: 'never' } });
    },
    kept(most, end) { things.some(most, end, { name: 'mine' }); },
    presettled() {
        container.on('receiver_open', ({ receiver }) => receiver.add_credit(1000));
        receives({ snd_settle_mode: 1 }, () => {});
    },
    outcomes() { // each in its own way
        container.on('receiver_open', ({ receiver }) => receiver.add_credit(4));
        // One at a time: rhea tells of two in one tick as if both had gone like the first.
        receives({}, ({ delivery, receiver, connection }, received) => setImmediate(() => {
            if (received === 1) delivery.accept();
            if (received === 2) delivery.reject({ condition: 'rstreams:bad-item', description: 'number two' });
            if (received === 3) delivery.release();
            if (received === 4) {
                delivery.modified({ delivery_failed: true, undeliverable_here: true });
                receiver.close();
                connection.close();
            }
        }));
    },
    enough() { // ends the link with an error of its own
        container.on('receiver_open', ({ receiver }) => receiver.add_credit(100));
        receives({}, ({ delivery, receiver }, received) => {
            delivery.accept();
            if (received === 3) receiver.close({ condition: 'rstreams:enough', description: 'three will do' });
        });
    },
    failing() { // works off what it gets once, and fails at it
        container.on('receiver_open', ({ receiver }) => receiver.add_credit(1));
        receives({}, ({ delivery, receiver, connection }, received) => {
            if (received < 3) {
                delivery.modified({ delivery_failed: true, undeliverable_here: false });
                receiver.add_credit(1);
            } else {
                delivery.accept();
                receiver.close();
                connection.close();
            }
        });
    },
    send() { sends(numbers(200), {}); },
    bodies() {
        sends([
            { body: 'text' }, { body: 5 }, { body: 2.5 }, { body: true }, { body: null }, { body: [1, 'two', null] },
            { body: { a: 1 } }, { body: message.data_section(Buffer.from('data')) },
            { body: message.sequence_section([1, 2]) }, { body: types.wrap_binary(Buffer.from('binary')) },
            { body: types.wrap_symbol('a-symbol') }, { body: types.wrap_timestamp(1767225600000) },
            { body: 'x', application_properties: { whole: 31, text: 'x' }, subject: 'hot', message_id: 'm-1' },
        ], {});
    },
    large() { sends([{ body: message.data_section(Buffer.alloc(3000000, 'abc')) }], {}); },
    quits() { // a producer that fails
        sends(numbers(3), {}, (sender) => sender.close({ condition: 'rstreams:test', description: 'out of numbers' }));
    },
    ask() { // three requests at once
        asks([
            { body: 'tea', message_id: 'm-1' }, { body: 'milk', message_id: 'm-2', correlation_id: 'c-2' },
            { body: 'bad', message_id: 'm-3' },
        ], { credit: 3, on_reply(replies, _, connection) { if (replies === 3) connection.close(); } });
    },
    asks_for_ten() { // three of them, then the rest
        const source = { capabilities: ['temporary-queue', 'rstreams:reply-stream'] };
        const request = { body: 10, message_id: 'm-1', application_properties: { 'rstreams-replies': 'stream' } };
        asks([request], { credit: 3, source, on_reply(replies, receiver, connection) {
            if (replies !== 3) return;
            // What the peer had sent by itself would be here before its answer to this.
            connection.open_sender(address).once('sender_open', () => {
                tell('three', { credit: receiver.credit });
                receiver.add_credit(20);
            });
        } });
    },
    responds() { // takes the requests from a queue
        container.on('connection_open', ({ connection }) => connection.open_receiver(address));
        const senders = new Map();
        container.on('message', ({ message: request, connection }) => {
            const to = request.reply_to;
            if (!senders.has(to)) {
                senders.set(to, connection.open_sender(to));
                senders.get(to).replies = { waiting: [], sent: 0 };
            }
            senders.get(to).replies.waiting.push(...replies_to(request));
            pour(senders.get(to));
        });
        container.on('sendable', ({ sender }) => pour(sender));
    },
    responds_over_a_relay() { // as `responds`, with one link for all replies
        let relay;
        container.on('connection_open', ({ connection }) => {
            connection.open_receiver(address);
            relay = connection.open_sender({ target: {} });
        });
        container.on('message', ({ message: request }) => {
            for (const reply of replies_to(request)) relay.send(reply);
        });
    },
    ask_over_a_relay() { // one request that is answered, and one message that has nowhere to go
        let tells = 2;
        const told = (connection) => { tells -= 1; if (tells === 0) connection.close(); };
        container.on('connection_open', ({ connection }) => {
            tell('open', { offered: connection.remote.open.offered_capabilities });
            connection.open_receiver({ source: { dynamic: true } });
        });
        container.on('receiver_open', ({ receiver, connection }) => {
            connection.open_sender({ target: {} }).once('sendable', ({ sender }) => {
                sender.send({ to: address, body: 'tea', message_id: 'm-1', reply_to: receiver.source.address });
                sender.send({ to: 'nowhere', body: 'milk' });
            });
        });
        container.on('message', ({ message: came, connection }) => {
            tell('reply', { body: came.body, to: came.correlation_id });
            told(connection);
        });
        container.on('rejected', ({ delivery, connection }) => {
            tell('rejected', { condition: delivery.remote_state.error.condition });
            told(connection);
        });
    },
    attach() {
        container.on('connection_open', ({ connection }) => connection.open_receiver(address));
    },
    target() {
        container.on('connection_open', ({ connection }) => connection.open_sender(address));
    },
};

things[thing](...details);
container.connect({
    port: Number(port), host: '127.0.0.1', username, password, reconnect: false, max_frame_size: 16384,
    sender_options: { autosettle: true },
});
