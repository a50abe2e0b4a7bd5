// rhea over TLS, by certificate: node tls.js RHEA client|server PORT CA CERTIFICATE_AND_KEY
// As the client it prints the first message of "numbers"; as the server it sends 7 to whoever attaches, and prints "ready".
const fs = require('fs');
const [library, role, port, ca, pem] = process.argv.slice(2);
const container = require(library).create_container({ id: 'rhea' });
const own = { ca: [fs.readFileSync(ca)], cert: fs.readFileSync(pem), key: fs.readFileSync(pem), transport: 'tls' };

if (role === 'client') {
    container.on('message', (context) => {
        console.log(JSON.stringify({ body: context.message.body, user: context.connection.sasl_transport.mechanism }));
        context.connection.close();
    });
    container.on('connection_error', (context) => { console.log(String(context.error)); process.exitCode = 1; });
    container.on('disconnected', () => process.exit());
    const connection = container.connect({
        ...own, host: '127.0.0.1', port, reconnect: false, enable_sasl_external: true, rejectUnauthorized: true,
    });
    connection.open_receiver({ source: 'numbers', credit_window: 1 });
} else {
    const options = { ...own, host: '127.0.0.1', port, enable_sasl_external: true, requestCert: true, rejectUnauthorized: true };
    container.on('sender_open', (context) => {
        context.sender.set_source(context.sender.source);
        context.sender.once('sendable', () => context.sender.send({ body: 7 }));
    });
    container.on('error', () => {});
    container.listen(options).on('listening', () => console.log('ready'));
}
