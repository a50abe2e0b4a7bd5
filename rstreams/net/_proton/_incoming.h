/* The frames that come, on their way to the engine. Before this header: _arrivals.h, _transfers.h.

   The frames are walked over: transfers go to the engine without their payloads, dispositions as they are, and at any other
   frame `take` stops. Spec: AMQP 1.0 sections 2.3 (framing) and 2.7.5 (transfer). */

enum {
    BATCH = 8 * 1024,               /* input for the engine that is given to it together */
    PLAIN_HEADER = 8,               /* a frame's header without an extension; a frame that has no more is a heartbeat */
    BODY_BEGIN = 256,               /* the bytes of a message in which it is looked for a body of a told size */
    MOST_TOLD = 4 * 1024 * 1024,    /* up to this size a body gets its memory at once; the kernel gives it when it is written to */
    LARGE_BODY = 128 * 1024,        /* a smaller body is no body by itself */
    MOST_ROOMS = 64,                /* frames for which there are rooms; the kernel takes 1,024 pieces in one call */
};

/* ------------------------------------------------------------------------------------------------------------ input */

/* What is for the engine; many small frames are given to it together. */
struct batch {
    void *transport;
    size_t size;
    char bytes[BATCH];
};

static void push(void *transport, const char *from, size_t left)
{
    while (left > 0) {
        ptrdiff_t size = pn.transport_capacity(transport);
        if (size <= 0)
            break;
        if ((size_t)size > left)
            size = (ptrdiff_t)left;
        size = pn.transport_push(transport, from, (size_t)size);
        if (size <= 0)
            break;
        from += size;
        left -= (size_t)size;
    }
}

static void push_batch(struct batch *batch)
{
    push(batch->transport, batch->bytes, batch->size);
    batch->size = 0;
}

static void give(struct batch *batch, const char *from, size_t size)
{
    if (size > BATCH - batch->size)
        push_batch(batch);
    if (size > BATCH / 2) {
        push_batch(batch);
        push(batch->transport, from, size);
    } else {
        memcpy(batch->bytes + batch->size, from, size);
        batch->size += size;
    }
}

/* Give the engine the transfer whose payload has come, without that. */
static void give_transfer(struct input *input, struct batch *batch)
{
    char size[4];
    tell_size(size, input->head_size);
    give(batch, size, 4);
    give(batch, input->head + 4, input->head_size - 4);
}

/* Return the message whose payload comes; NULL if it is thrown away. */
static struct message *coming(const struct input *input)
{
    struct message *message = input->coming == NULL ? NULL : last_of((struct arrivals *)input->coming);
    return message == NULL || message->unwanted || message->format != 0 ? NULL : message;
}

/* Copy bytes of the payload that comes; false without memory. */
static bool take_payload(struct input *input, const char *from, size_t size)
{
    struct message *message = coming(input);
    char *to = message == NULL ? NULL : reserve(message, size);
    if (message != NULL && to == NULL)
        return false;
    if (to != NULL) {
        memcpy(to, from, size);
        message->size += size;
    }
    input->left -= size;
    return true;
}

/* Ask how large the body is with which a message begins; false for an error. */
static bool look_for_body(struct input *input, struct message *message, const char *from, size_t had)
{
    Py_ssize_t begin, size;
    PyObject *found = PyObject_CallFunction(body_at, "y#", from, (Py_ssize_t)(had < BODY_BEGIN ? had : BODY_BEGIN));
    if (found == NULL)
        return false;
    bool is_told = found != Py_None && PyArg_ParseTuple(found, "nnn:body_at", &begin, &begin, &size);
    Py_DECREF(found);
    if (!is_told || size < LARGE_BODY || (size_t)begin > had)
        return PyErr_Occurred() == NULL;
    message->head = PyBytes_FromStringAndSize(from, begin);
    message->told = (size_t)size;
    return message->head != NULL && reserve(message, size < MOST_TOLD ? (size_t)size : MOST_TOLD) != NULL;
}

/* Begin with the payload of a transfer on a link whose payloads do not go to the engine: `PASSES`, or `TOO_SHORT`, or
   `LOOK` for an error. */
static enum kind begin_payload(struct input *input, struct arrivals *arrivals, const struct transfer *transfer,
                               const char *frame, size_t had, size_t size)
{
    bool begins = !arrivals->inside && !arrivals->closed, may_have_body = begins && transfer->more && transfer->format == 0 && !arrivals->in_parts;
    size_t here = had - transfer->begin, payload = size - transfer->begin, at = transfer->begin;
    if (may_have_body && here < payload && here < BODY_BEGIN)
        return TOO_SHORT;
    if (transfer->begin > input->head_room) {
        char *more = PyMem_Realloc(input->head, transfer->begin);
        if (more == NULL) {
            PyErr_NoMemory();
            return LOOK;
        }
        input->head = more;
        input->head_room = transfer->begin;
    }
    if (begins) {
        struct message *message = add_message(arrivals);
        if (message == NULL)
            return LOOK;
        message->format = transfer->format;
        if (may_have_body) {
            if (!look_for_body(input, message, frame + at, here))
                return LOOK;
            at += message->head == NULL ? 0 : (size_t)PyBytes_Size(message->head);
        }
    }
    memcpy(input->head, frame, transfer->begin);
    input->head_size = transfer->begin;
    input->payload = payload;
    input->left = size - at;
    input->more = arrivals->inside = transfer->more && !transfer->aborted;
    input->coming = Py_NewRef((PyObject *)arrivals); /* there was none */
    struct message *message = coming(input);
    if (message != NULL && transfer->aborted) {
        clear_message(message);
        message->unwanted = true;
    } else if (message != NULL && reserve(message, input->left) == NULL) {
        return LOOK;
    }
    input->skipped = at;
    return PASSES;
}

static PyObject *end_of_take(struct batch *batch, Py_buffer *data, size_t at, long long told)
{
    push_batch(batch);
    PyBuffer_Release(data);
    return PyErr_Occurred() != NULL ? NULL : Py_BuildValue("nL", (Py_ssize_t)at, told);
}

static PyObject *take(PyObject *self, PyObject *args)
{
    struct beside *beside = (struct beside *)self;
    struct batch batch;
    Py_buffer data;
    Py_ssize_t from;
    unsigned int most;
    if (!PyArg_ParseTuple(args, "y*nI:take", &data, &from, &most))
        return NULL;
    batch.transport = beside->transport;
    batch.size = 0;
    struct input *input = &beside->input;
    input->out_of_order = false;
    const char *bytes = data.buf;
    size_t at = (size_t)from, end = (size_t)data.len;
    if (from < 0 || at > end) {
        PyBuffer_Release(&data);
        return PyErr_Format(PyExc_ValueError, "no place in these bytes");
    }
    while (at < end || (input->coming != NULL && input->left == 0)) {
        size_t left = end - at, step;
        if (input->coming != NULL) {
            step = input->left < left ? input->left : left;
            if (!take_payload(input, bytes + at, step))
                break;
            at += step;
            if (input->left == 0) {
                give_transfer(input, &batch);
                Py_CLEAR(input->coming);
            }
            continue;
        }
        if (input->passing > 0) {
            step = input->passing < left ? input->passing : left;
            give(&batch, bytes + at, step);
            input->passing -= step;
            at += step;
            continue;
        }
        if (left < PLAIN_HEADER)
            break;
        const unsigned char *frame = (const unsigned char *)bytes + at;
        uint32_t size = read_u32(frame);
        if (size > most || frame[4] < 2 || 4 * (uint32_t)frame[4] > size)
            return end_of_take(&batch, &data, at, -1);
        enum kind kind = look_at_frame(frame, size, left, 1 << 4 | 1 << 5);
        if (kind == PASSES && size > 4 * (size_t)frame[4] + 3 && frame[4 * frame[4] + 2] == A_TRANSFER) {
            struct transfer transfer;
            kind = read_transfer(frame, left < size ? left : size, size, &transfer);
            unsigned int channel = (unsigned int)frame[6] << 8 | frame[7];
            struct arrivals *arrivals = kind != PASSES ? NULL : arrivals_at(input, key_of(channel, transfer.handle));
            if (PyErr_Occurred() != NULL)
                break;
            bool begins = arrivals != NULL && !arrivals->inside;
            struct numbers *numbers = channel < input->channels ? &input->numbers[channel] : NULL;
            if (kind == PASSES && (arrivals == NULL || numbers == NULL)) {
                kind = LOOK; /* no link of a sender has this handle */
            } else if (kind == PASSES && !is_in_order(numbers, arrivals, &transfer)) {
                input->out_of_order = true;
                kind = LOOK;
            } else if (kind == PASSES && arrivals->beside) {
                kind = begin_payload(input, arrivals, &transfer, bytes + at, left < size ? left : size, size);
                if (kind == PASSES) {
                    count_transfer(numbers, arrivals, &transfer, begins);
                    at += input->skipped;
                    continue;
                }
                if (kind == LOOK)
                    break;
            } else if (kind == PASSES) { /* only its format is noted */
                struct message *begun = arrivals->inside || arrivals->closed ? NULL : add_message(arrivals);
                if (begun != NULL)
                    begun->format = transfer.format;
                else if (PyErr_Occurred() != NULL)
                    break;
                count_transfer(numbers, arrivals, &transfer, begins);
                arrivals->inside = transfer.more && !transfer.aborted;
            }
        }
        if (kind != PASSES)
            return end_of_take(&batch, &data, at, kind == LOOK ? size : 0);
        input->passing = size;
    }
    return end_of_take(&batch, &data, at, 0);
}

static PyObject *is_out_of_order(PyObject *self, PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(((struct beside *)self)->input.out_of_order);
}

static PyObject *end_frames(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct beside *beside = (struct beside *)self;
    if (beside->input.coming != NULL)
        push(beside->transport, beside->input.head, beside->input.head_size);
    Py_CLEAR(beside->input.coming);
    return Py_NewRef(Py_None);
}

static PyObject *feed(PyObject *self, PyObject *args)
{
    Py_buffer data;
    if (!PyArg_ParseTuple(args, "y*:feed", &data))
        return NULL;
    push(((struct beside *)self)->transport, data.buf, (size_t)data.len);
    PyBuffer_Release(&data);
    return Py_NewRef(Py_None);
}

/* ------------------------------------------------------------------------------------------------------------ rooms */

/* The rest of a body comes in frames. All but the last one have the same size and the same head as the frame that is on
   its way, if nothing else comes between. Therefore the network may write into the memory of the body: there is a room
   for the rest of this frame's payload, and then by turns one for a head and one for a payload. A frame that turns out to
   be another one is taken out of its rooms and read in the usual way. */

static int add_room(PyObject *rooms, char *at, size_t size)
{
    return append(rooms, PyMemoryView_FromMemory(at, (Py_ssize_t)size, PyBUF_WRITE));
}

static PyObject *rooms(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct input *input = &((struct beside *)self)->input;
    struct message *message = coming(input);
    PyObject *found = PyList_New(0);
    if (found == NULL || message == NULL || message->told == 0 || message->bytes == NULL)
        return found;
    size_t room = (size_t)PyBytes_Size(message->bytes) - message->size, frames = 0;
    if (room < input->left)
        return found;
    char *to = PyBytes_AsString(message->bytes) + message->size;
    if (input->more && input->payload > 0)
        frames = (room - input->left) / input->payload;
    input->rooms = frames = frames < MOST_ROOMS ? frames : MOST_ROOMS;
    char *heads = PyMem_Realloc(input->heads, frames * input->head_size + 1);
    if (heads == NULL)
        frames = input->rooms = 0;
    else
        input->heads = heads;
    if (add_room(found, to, input->left) < 0)
        goto failed;
    to += input->left;
    for (size_t i = 0; i < frames; i++) {
        if (add_room(found, input->heads + i * input->head_size, input->head_size) < 0 || add_room(found, to, input->payload) < 0)
            goto failed;
        to += input->payload;
    }
    return found;
failed:
    Py_DECREF(found);
    return NULL;
}

/* Return `came` bytes that were written into the rooms from that of a head on. */
static PyObject *out_of_rooms(const struct input *input, size_t frame, const char *body, size_t came)
{
    PyObject *rest = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)came);
    char *to = rest == NULL ? NULL : PyBytes_AsString(rest);
    for (; to != NULL && came > 0; frame++, body += input->payload) {
        size_t size = copy(to, came, input->heads + frame * input->head_size, input->head_size);
        to += size;
        came -= size;
        size = copy(to, came, body, input->payload);
        to += size;
        came -= size;
    }
    return rest;
}

static PyObject *take_rooms(PyObject *self, PyObject *args)
{
    struct beside *beside = (struct beside *)self;
    struct batch batch;
    Py_ssize_t written;
    if (!PyArg_ParseTuple(args, "n:take_rooms", &written))
        return NULL;
    batch.transport = beside->transport;
    batch.size = 0;
    struct input *input = &beside->input;
    struct message *message = coming(input);
    size_t came = written > 0 ? (size_t)written : 0, frame = 0;
    if (message == NULL || came > input->left + input->rooms * (input->head_size + input->payload))
        return PyErr_Format(PyExc_ValueError, "there were no such rooms");
    const size_t first = came < input->left ? came : input->left, whole = input->head_size + input->payload;
    message->size += first;
    input->left -= first;
    came -= first;
    PyObject *rest = NULL;
    if (input->left == 0) {
        give_transfer(input, &batch);
        for (; came >= input->head_size && memcmp(input->heads + frame * input->head_size, input->head, input->head_size) == 0; frame++) {
            if (came < whole) {
                input->left = whole - came;
                message->size += came - input->head_size;
                came = 0;
                break;
            }
            message->size += input->payload;
            came -= whole;
            give_transfer(input, &batch);
        }
        if (came > 0)
            rest = out_of_rooms(input, frame, PyBytes_AsString(message->bytes) + message->size, came);
        if (input->left == 0)
            Py_CLEAR(input->coming);
    }
    push_batch(&batch);
    if (rest == NULL && !PyErr_Occurred())
        rest = PyBytes_FromStringAndSize("", 0);
    return rest;
}

