// An AMQP server of rhea: `node listener.js RHEA PORT`. What an address does is in its name, up to the first colon, so
// each test has addresses of its own. Each event is one line of JSON on standard output.
'use strict';

const rhea = require(process.argv[2]);
const port = Number(process.argv[3]);
const { types, message } = rhea;
const { replies_to, pour } = require('./replies.js');

function tell(event, link, more) {
    const address = link.source.address || link.target.address;
    console.log(JSON.stringify({ event, address, ...more }));
}

// rhea takes what it is given beyond the credit: what has been granted in all is what may have been sent.
function room(sender) {
    return sender.delivery_count + sender.credit;
}

const container = rhea.create_container({ id: 'rhea' });
container.sasl_server_mechanisms.enable_plain((user, password) => user === 'alice' && password === 'secret');
container.sasl_server_mechanisms.enable_anonymous();

const bodies = [
    'text', 5, -7, 2.5, true, null, types.wrap_long(1099511627776), types.wrap_ubyte(7), types.wrap_uint(8),
    types.wrap_symbol('a-symbol'), types.wrap_timestamp(1767225600000), types.wrap_binary(Buffer.from('binary')),
    types.wrap_uuid(Buffer.from('00000000000000000000000000000005', 'hex')), [1, 'two', null], { a: 1, b: 'two' },
    types.wrap_array([1, 2, 3], 0x71), message.data_section(Buffer.from('data')),
    message.data_sections([Buffer.from('two '), Buffer.from('parts')]), message.sequence_section([1, 2]),
];

// What senders do: (sender, state) => when there is credit.
const sources = {
    numbers(sender, state) { // a hundred, then the end
        while (state.sent < room(sender) && state.sent < 100) sender.send({ body: state.sent++ });
        if (state.sent === 100) sender.close();
    },
    endless(sender, state) {
        while (state.sent < room(sender)) sender.send({ body: state.sent++ });
        tell('sent', sender, { sent: state.sent });
    },
    few(sender, state) { // three for the first who comes; stays open, and answers a drain
        while (state.sent < room(sender) && state.sent < 3) sender.send({ body: state.sent++ });
    },
    fails(sender, state) {
        while (state.sent < room(sender) && state.sent < 3) sender.send({ body: state.sent++ });
        if (state.sent === 3) {
            sender.close({ condition: 'rstreams:test', description: 'no more of it', info: { at: 3 } });
        }
    },
    leaves(sender, state) { // a detach that is no close
        if (state.sent++ === 0) sender.detach();
    },
    bodies(sender, state) {
        while (state.sent < room(sender) && state.sent < bodies.length) sender.send({ body: bodies[state.sent++] });
        if (state.sent === bodies.length) sender.close();
    },
    whole(sender, state) { // one message with all that can stand around a body
        if (state.sent++ > 0) return;
        sender.send({
            message_id: 'm-1', user_id: 'alice', to: 'here', subject: 'hot', reply_to: 'answers', correlation_id: 'c-1',
            content_type: 'text/plain', content_encoding: 'identity', creation_time: new Date(1767225600000),
            absolute_expiry_time: new Date(1767229200000), group_id: 'g', group_sequence: 7, reply_to_group_id: 'h',
            durable: true, priority: 9, ttl: 60000, first_acquirer: true, delivery_count: 2,
            message_annotations: { 'x-opt-note': 'n' },
            application_properties: { text: 'x', whole: 31, real: 1.5, yes: true },
            body: 'degrees',
        });
        sender.close();
    },
    outcomes(sender, state) { // sends again what comes back
        while (state.sent < room(sender) && state.sent < 5) {
            sender.send({ body: 'item-' + state.sent, delivery_count: 0 }, String(state.sent++));
        }
    },
    settled(sender, state) {
        while (state.sent < room(sender) && state.sent < 50) {
            const delivery = sender.send({ body: state.sent++ });
            delivery.update(true);
        }
        if (state.sent === 50) sender.close();
    },
    large(sender, state) {
        if (state.sent++ > 0) return;
        sender.send({ body: message.data_section(Buffer.alloc(3000000, 'abc')) });
        sender.close();
    },
};

const made = new Map(); // the senders at addresses that were made for a client's link

container.on('sender_open', ({ sender }) => {
    if (sender.source && sender.source.dynamic) {
        const address = 'made-' + (made.size + 1);
        sender.set_source({ address, dynamic: true });
        sender.replies = { waiting: [], sent: 0 };
        made.set(address, sender);
        return;
    }
    const address = (sender.source && sender.source.address) || '';
    const kind = address.split(':')[0];
    if (!(kind in sources)) {
        sender.set_source(null);
        sender.close({ condition: 'amqp:not-found', description: 'no ' + address + ' here' });
        return;
    }
    sender.set_source({ address });
    sender.progress = { sent: 0 };
});
container.on('sendable', ({ sender }) => {
    if (sender.replies) {
        pour(sender);
        return;
    }
    const kind = sender.source.address.split(':')[0];
    sources[kind](sender, sender.progress);
});
container.on('sender_draining', ({ sender }) => {
    tell('draining', sender, { credit: sender.credit });
    sender.set_drained(true);
});
for (const outcome of ['accepted', 'rejected', 'released', 'modified']) {
    container.on(outcome, ({ sender, delivery }) => {
        const state = delivery.remote_state || {};
        const error = state.error || {};
        tell(outcome, sender, {
            tag: delivery.tag.toString(), condition: error.condition, description: error.description,
            failed: state.delivery_failed, undeliverable: state.undeliverable_here,
        });
        if (outcome === 'modified' && state.delivery_failed && sender.progress.again === undefined) {
            sender.progress.again = true;
            sender.send({ body: 'again', delivery_count: 1, first_acquirer: false });
        }
    });
}
for (const end of ['sender_close', 'sender_detached', 'receiver_close', 'receiver_detached']) {
    container.on(end, ({ sender, receiver }) => tell(end, sender || receiver));
}
for (const end of ['sender_error', 'receiver_error']) {
    container.on(end, ({ sender, receiver }) => {
        const error = (sender || receiver).error;
        tell(end, sender || receiver, { condition: error.condition, description: error.description });
    });
}

// What receivers do with a delivery: (context, number)
const targets = {
    sink({ delivery }) { delivery.accept(); },
    picky({ delivery }, number) { // one at a time: rhea tells of two in one tick as if both had gone like the first
        setImmediate(() => {
            if (number === 2) delivery.reject({ condition: 'rstreams:bad-item', description: 'number two' });
            else delivery.accept();
        });
    },
    releases({ delivery }) { delivery.release(); },
    modifies({ delivery }) { delivery.modified({ delivery_failed: true, undeliverable_here: true }); },
    closes({ delivery, receiver }, number) {
        delivery.accept();
        if (number === 3) receiver.close({ condition: 'amqp:link:detach-forced', description: 'three are enough' });
    },
    answers({ delivery, message: request }) { // to the address that the request names
        const sender = made.get(request.reply_to);
        sender.replies.waiting.push(...replies_to(request));
        pour(sender);
        delivery.accept();
    },
    tens({ delivery, receiver }, number) { // grants ten at a time, when all ten are there
        delivery.accept();
        if (number % 10 === 0) receiver.add_credit(10);
    },
};

container.on('receiver_open', ({ receiver }) => {
    const address = (receiver.target && receiver.target.address) || '';
    const kind = address.split(':')[0];
    if (!(kind in targets)) {
        receiver.set_target(null);
        receiver.close({ condition: 'amqp:not-allowed', description: 'nothing goes to ' + address });
        return;
    }
    receiver.set_target({ address });
    receiver.progress = { received: 0 };
    receiver.add_credit(kind === 'tens' ? 10 : 1000);
});
container.on('message', (context) => {
    const { receiver, message: came } = context;
    const number = ++receiver.progress.received;
    const body = came.body && came.body.content !== undefined ? came.body.content : came.body;
    tell('message', receiver, {
        number, credit: receiver.credit, kind: typeof body, size: Buffer.isBuffer(body) ? body.length : undefined,
        body: Buffer.isBuffer(body) ? body.toString('latin1').slice(0, 20) : body,
        properties: came.application_properties, id: came.message_id, subject: came.subject, ttl: came.ttl,
        durable: came.durable, created: came.creation_time && came.creation_time.getTime(),
    });
    targets[receiver.target.address.split(':')[0]](context, number);
});
container.on('connection_open', ({ connection }) => {
    console.log(JSON.stringify({ event: 'open', address: '', container: connection.container_id }));
});
for (const quiet of ['disconnected', 'connection_error', 'connection_close', 'session_error', 'protocol_error']) {
    container.on(quiet, () => {});
}
process.on('SIGTERM', () => process.exit(0));

container.listen({
    port, host: '127.0.0.1', max_frame_size: 16384, receiver_options: { credit_window: 0, autoaccept: false },
    sender_options: { autosettle: true },
});
