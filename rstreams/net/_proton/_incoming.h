/* The frames that come, on their way to the engine. Before this header: _arrivals.h.

   The frames are walked over: transfers go to the engine without their payloads, dispositions as they are, and at any other
   frame `take` stops. Spec: AMQP 1.0 sections 2.3 (framing) and 2.7.5 (transfer). */

enum {
    BATCH = 8 * 1024,               /* input for the engine that is given to it together */
    PLAIN_HEADER = 8,               /* a frame's header without an extension; a frame that has no more is a heartbeat */
    MOST_DEPTH = 8,                 /* of described values in a transfer's fields */
    BODY_BEGIN = 256,               /* the bytes of a message in which it is looked for a body of a told size */
    MOST_TOLD = 4 * 1024 * 1024,    /* up to this size a body gets its memory at once; the kernel gives it when it is written to */
    LARGE_BODY = 128 * 1024,        /* a smaller body is no body by itself */
    IN_TRANSACTION = 0xffffffff,    /* in the place of a message-format */
    MOST_ROOMS = 64,                /* frames for which there are rooms; the kernel takes 1,024 pieces in one call */
};

/* ---------------------------------------------------------------------------------------------- a transfer's fields */

struct fields {
    const unsigned char *at, *end;
};

/* Skip a value of any type; false for anything else. */
static bool skip_value(struct fields *fields, int depth)
{
    static const unsigned char WIDTHS[] = {0, 1, 2, 4, 8, 16};
    size_t left = (size_t)(fields->end - fields->at);
    if (left == 0 || depth > MOST_DEPTH)
        return false;
    unsigned char kind = *fields->at;
    if (kind == 0) { /* described: the descriptor and the value follow */
        fields->at++;
        return skip_value(fields, depth + 1) && skip_value(fields, depth + 1);
    }
    size_t size;
    if (kind >= 0x40 && kind < 0xa0)
        size = 1 + (size_t)WIDTHS[(kind >> 4) - 4];
    else if (kind >= 0xa0 && (kind >> 4) % 2 == 0 && left >= 2)
        size = 2 + (size_t)fields->at[1];
    else if (kind >= 0xb0 && (kind >> 4) % 2 == 1 && left >= 5)
        size = 5 + (size_t)read_u32(fields->at + 1);
    else
        return false;
    if (size > left)
        return false;
    fields->at += size;
    return true;
}

/* Take the next field; return where it begins, or NULL for what is no value. A field that is not there is a null. */
static const unsigned char *next_field(struct fields *fields, uint32_t *left)
{
    static const unsigned char NOTHING[] = {0x40};
    if (*left == 0)
        return NOTHING;
    *left -= 1;
    const unsigned char *at = fields->at;
    return skip_value(fields, 0) ? at : NULL;
}

/* Read a uint; a null leaves `*value` as it was. False for anything else. */
static bool read_uint(struct fields *fields, uint32_t *left, uint32_t *value)
{
    const unsigned char *at = next_field(fields, left);
    if (at != NULL && (*at == 0x43 || *at == 0x52 || *at == 0x70))
        *value = *at == 0x43 ? 0 : *at == 0x52 ? at[1] : read_u32(at + 1);
    return at != NULL && (*at == 0x40 || *at == 0x43 || *at == 0x52 || *at == 0x70);
}

/* Read a boolean; a null is false. */
static bool read_bool(struct fields *fields, uint32_t *left, bool *value)
{
    const unsigned char *at = next_field(fields, left);
    *value = at != NULL && (*at == 0x41 || (*at == 0x56 && at[1] != 0));
    return at != NULL && ((*at >= 0x40 && *at <= 0x42) || *at == 0x56);
}

/* Skip a field of any type, or of one of these two and null. */
static bool skip_field_of(struct fields *fields, uint32_t *left, int one, int other)
{
    const unsigned char *at = next_field(fields, left);
    return at != NULL && (one == 0 || *at == 0x40 || *at == one || *at == other);
}

/* Tell whether a state is that of a message in a transaction (4.5.6). */
static bool is_transactional(const unsigned char *state)
{
    static const char NAME[] = "amqp:transactional-state:list";
    enum { CODE = 0x34, SIZE = sizeof(NAME) - 1 };
    if (state[0] != 0)
        return false;
    if (state[1] == 0x53)
        return state[2] == CODE;
    if (state[1] == 0x80)
        return read_u32(state + 2) == 0 && read_u32(state + 6) == CODE;
    if (state[1] == 0xa3)
        return state[2] == SIZE && memcmp(state + 3, NAME, SIZE) == 0;
    return state[1] == 0xb3 && read_u32(state + 2) == SIZE && memcmp(state + 6, NAME, SIZE) == 0;
}

struct transfer {
    uint32_t handle, format; /* `IN_TRANSACTION` for a message in a transaction, which nobody here can take */
    bool more, aborted;
    size_t begin; /* of its payload */
};

/* Read the transfer of `size` bytes, of which `had` have come. `TOO_SHORT`: its fields have not come. `LOOK`: it is
   written in a way that the engine does not know, or cannot be decoded. */
static enum kind read_transfer(const unsigned char *frame, size_t had, size_t size, struct transfer *transfer)
{
    size_t at = 4 * (size_t)frame[4] + 4, width = frame[at - 1] == 0xc0 ? 1 : 4;
    if (frame[at - 1] != 0xc0 && frame[at - 1] != 0xd0)
        return LOOK;
    if (had < at + 2 * width)
        return size < at + 2 * width ? LOOK : TOO_SHORT;
    size_t list = width == 1 ? frame[at] : read_u32(frame + at);
    uint32_t left = width == 1 ? frame[at + 1] : read_u32(frame + at + 4);
    if (list < width || list > size - at - width)
        return LOOK;
    *transfer = (struct transfer){.handle = UINT32_MAX, .begin = at + width + list};
    if (had < transfer->begin)
        return TOO_SHORT;
    struct fields fields = {frame + at + 2 * width, frame + transfer->begin};
    uint32_t ignored = 0;
    bool unused = false;
    const unsigned char *state = NULL;
    bool is_read = read_uint(&fields, &left, &transfer->handle) && read_uint(&fields, &left, &ignored) &&
                   skip_field_of(&fields, &left, 0xa0, 0xb0) && read_uint(&fields, &left, &transfer->format) &&
                   read_bool(&fields, &left, &unused) && read_bool(&fields, &left, &transfer->more) &&
                   skip_field_of(&fields, &left, 0x50, 0x50) && (state = next_field(&fields, &left)) != NULL &&
                   read_bool(&fields, &left, &unused) && read_bool(&fields, &left, &transfer->aborted);
    if (is_read && is_transactional(state))
        transfer->format = IN_TRANSACTION;
    return is_read && transfer->handle != UINT32_MAX ? PASSES : LOOK;
}

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
            struct arrivals *arrivals = kind != PASSES ? NULL : arrivals_at(input, key_of((unsigned int)frame[6] << 8 | frame[7], transfer.handle));
            if (PyErr_Occurred() != NULL)
                break;
            if (arrivals != NULL && arrivals->beside) {
                kind = begin_payload(input, arrivals, &transfer, bytes + at, left < size ? left : size, size);
                if (kind == PASSES) {
                    at += input->skipped;
                    continue;
                }
                if (kind == LOOK)
                    break;
            } else if (arrivals != NULL) { /* only its format is noted */
                struct message *begun = arrivals->inside || arrivals->closed ? NULL : add_message(arrivals);
                if (begun != NULL)
                    begun->format = transfer.format;
                else if (PyErr_Occurred() != NULL)
                    break;
                arrivals->inside = transfer.more && !transfer.aborted;
            }
        }
        if (kind != PASSES)
            return end_of_take(&batch, &data, at, kind == LOOK ? size : 0);
        input->passing = size;
    }
    return end_of_take(&batch, &data, at, 0);
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

