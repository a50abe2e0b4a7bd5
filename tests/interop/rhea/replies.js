// What rhea answers to a request, as client and as server. It follows docs/guides/request-reply.md, "Other libraries".
'use strict';

// "bad": it failed; a number: so many replies, the last of them marked; else one, in capitals.
function replies_to(request) {
    const about = { to: request.reply_to, correlation_id: request.correlation_id || request.message_id };
    if (request.body === 'bad') {
        const properties = { 'rstreams-error-condition': 'shop:sold-out', 'rstreams-error-description': 'no tea' };
        return [{ ...about, application_properties: properties }];
    }
    if (typeof request.body === 'number') {
        return Array.from({ length: request.body }, (_, number) => ({
            ...about, body: number,
            application_properties: number === request.body - 1 ? { 'rstreams-reply': 'last' } : {},
        }));
    }
    return [{ ...about, body: request.body.toUpperCase() }];
}

// Sends what waits in sender.replies, within the credit: rhea itself takes what it is given beyond it.
function pour(sender) {
    const { replies } = sender;
    while (replies.waiting.length && replies.sent < sender.delivery_count + sender.credit) {
        replies.sent += 1;
        sender.send(replies.waiting.shift());
    }
}

module.exports = { replies_to, pour };
