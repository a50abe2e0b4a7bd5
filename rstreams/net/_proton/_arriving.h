/* Messages that come beside the engine. Before this header: _beside.h.

   The engine copies each byte of a message that comes three times, and keeps a buffer of the message's size with each
   delivery until that is settled. Therefore it gets a placeholder for a message that comes in one transfer. The message
   is copied once, out of the input, and waits in a slot until its delivery is read.

   This is done for links that were named to `expect`. Their messages are not counted in bytes by the engine: their
   session has no window. A transfer that is written in an unusual way ends it for the whole connection. */

enum {
    BATCH = 8 * 1024, /* input for the engine that is given to it together */
    PLAIN_HEADER = 8, /* a frame's header without an extension; a frame that has no more is a heartbeat */
    ALL = -1,         /* of a frame: all that comes from it on is for the engine */
};

struct expected {
    void *link;
    size_t most; /* the largest message that comes beside the engine */
    bool inside; /* of a delivery of several transfers */
};

static const char EXPECTED[] = "rstreams.expected";

static void free_expected(PyObject *capsule)
{
    PyMem_Free(PyCapsule_GetPointer(capsule, EXPECTED));
}

static uint64_t key_of(unsigned int channel, uint32_t handle)
{
    return (uint64_t)channel << 32 | handle;
}

PyDoc_STRVAR(expect_doc, "expect(beside, channel, handle, link, most): let messages of up to `most` bytes come beside the "
                         "engine on the link that the peer has attached so; with no link, no longer.");

static PyObject *expect(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct beside *beside;
    unsigned int channel, handle;
    PyObject *link, *key = NULL, *capsule = NULL;
    Py_ssize_t most;
    if (!PyArg_ParseTuple(args, "O&IIOn:expect", take_beside, &beside, &channel, &handle, &link, &most))
        return NULL;
    beside->input.last = NULL;
    int failed = -1;
    if ((key = PyLong_FromUnsignedLongLong(key_of(channel, handle))) == NULL)
        goto end;
    if (link == Py_None) {
        failed = PyDict_GetItemWithError(beside->input.links, key) != NULL ? PyDict_DelItem(beside->input.links, key)
                                                                           : -(PyErr_Occurred() != NULL);
        goto end;
    }
    struct expected *expected = PyMem_Calloc(1, sizeof(*expected));
    if (expected == NULL || (capsule = PyCapsule_New(expected, EXPECTED, free_expected)) == NULL) {
        PyMem_Free(expected);
        PyErr_NoMemory();
        goto end;
    }
    expected->most = most > 0 ? (size_t)most : 0;
    if (take_address(link, &expected->link))
        failed = PyDict_SetItem(beside->input.links, key, capsule);
end:
    Py_XDECREF(key);
    Py_XDECREF(capsule);
    return failed ? NULL : Py_NewRef(Py_None);
}

/* Return the link with a key; NULL if its messages do not come beside the engine. */
static struct expected *expected_of(struct input *input, uint64_t key)
{
    if (input->last == NULL || input->last_key != key) {
        PyObject *number = PyLong_FromUnsignedLongLong(key), *capsule = NULL;
        if (number != NULL)
            capsule = PyDict_GetItemWithError(input->links, number);
        Py_XDECREF(number);
        input->last = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, EXPECTED);
        input->last_key = key;
        PyErr_Clear(); /* without memory it goes through the engine */
    }
    return input->last;
}

/* ---------------------------------------------------------------------------------------------- a transfer's fields */

struct fields {
    const unsigned char *at, *end;
};

/* Read a uint or a null, which is `*value` as it was; false for anything else. */
static bool read_uint(struct fields *fields, uint32_t *value)
{
    const unsigned char *at = fields->at;
    size_t left = (size_t)(fields->end - at);
    if (left >= 1 && (at[0] == 0x40 || at[0] == 0x43)) {
        *value = at[0] == 0x43 ? 0 : *value;
        fields->at += 1;
    } else if (left >= 2 && at[0] == 0x52) {
        *value = at[1];
        fields->at += 2;
    } else if (left >= 5 && at[0] == 0x70) {
        *value = size_of_frame((const char *)at + 1);
        fields->at += 5;
    } else {
        return false;
    }
    return true;
}

/* Skip a short binary or a null; false for anything else. */
static bool skip_tag(struct fields *fields)
{
    const unsigned char *at = fields->at;
    size_t left = (size_t)(fields->end - at);
    size_t size = left >= 1 && at[0] == 0x40 ? 1 : left >= 2 && at[0] == 0xa0 ? 2 + (size_t)at[1] : 0;
    fields->at += size <= left ? size : 0;
    return size > 0 && size <= left;
}

/* Read a boolean or a null, which is false; false for anything else. A field that is not there is null. */
static bool read_bool(struct fields *fields, uint32_t *left, bool *value)
{
    *value = false;
    if (*left == 0)
        return true;
    *left -= 1;
    if (fields->at == fields->end || *fields->at < 0x40 || *fields->at > 0x42)
        return false;
    *value = *fields->at++ == 0x41;
    return true;
}

/* Skip a null, or a ubyte if there may be one; false for anything else. */
static bool skip_null(struct fields *fields, uint32_t *left, bool or_ubyte)
{
    if (*left == 0)
        return true;
    *left -= 1;
    size_t size = fields->at == fields->end ? 0 : *fields->at == 0x40 ? 1 : or_ubyte && *fields->at == 0x50 ? 2 : 0;
    if (size == 0 || (size_t)(fields->end - fields->at) < size)
        return false;
    fields->at += size;
    return true;
}

/* Look at the frame of `size` bytes of which the first `had` are at `start`: return where the message begins
   that is to come beside the engine, 0 if there is none, or `ALL`. */
static ptrdiff_t look_at_input(struct input *input, const char *start, size_t had, size_t size)
{
    const unsigned char *frame = (const unsigned char *)start;
    uint32_t handle = 0, ignored = 0, format = 0;
    bool settled, more, resume, aborted;
    if (size == PLAIN_HEADER)
        return 0;
    if (size < PLAIN_HEADER + 4 || frame[4] != 2 || frame[5] != 0 || frame[8] != 0 || frame[9] != 0x53)
        return ALL;
    if (frame[10] != (unsigned char)TRANSFER[2])
        return 0;
    bool is_short = frame[11] == 0xc0; /* a list whose size has one byte, and not four */
    size_t at = is_short ? 13 : 16;
    if ((!is_short && frame[11] != 0xd0) || had < at + 4)
        return ALL;
    size_t end = at + (is_short ? frame[12] : size_of_frame(start + 12));
    uint32_t left = is_short ? frame[13] : size_of_frame(start + 16);
    struct fields fields = {frame + at + (is_short ? 1 : 4), frame + end};
    if (end > had || left < 1 || fields.at > fields.end || *fields.at == 0x40 || !read_uint(&fields, &handle))
        return ALL;
    left -= 1;
    if (left > 0 && (left--, !read_uint(&fields, &ignored)))
        return ALL;
    if (left > 0 && (left--, !skip_tag(&fields)))
        return ALL;
    if (left > 0 && (left--, !read_uint(&fields, &format)))
        return ALL;
    if (!read_bool(&fields, &left, &settled) || !read_bool(&fields, &left, &more) || !skip_null(&fields, &left, true) ||
        !skip_null(&fields, &left, false) || !read_bool(&fields, &left, &resume) || !read_bool(&fields, &left, &aborted))
        return ALL;
    struct expected *link = expected_of(input, key_of((unsigned int)frame[6] << 8 | frame[7], handle));
    if (link == NULL)
        return 0;
    bool inside = link->inside;
    link->inside = more && !aborted;
    if (inside || more || resume || aborted || format != 0 || size - end < SMALLEST || size - end > link->most)
        return 0;
    input->link = link->link;
    return (ptrdiff_t)end;
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

static void give(struct batch *batch, const char *from, size_t size)
{
    bool is_large = size > BATCH / 2;
    if (is_large || size > BATCH - batch->size) {
        push(batch->transport, batch->bytes, batch->size);
        batch->size = 0;
    }
    if (is_large) {
        push(batch->transport, from, size);
    } else {
        memcpy(batch->bytes + batch->size, from, size);
        batch->size += size;
    }
}

/* Give the engine the transfer of the message that has come: with a placeholder if there is a slot for it. */
static void give_transfer(struct beside *beside, struct batch *batch)
{
    struct input *input = &beside->input;
    char placeholder[PLACEHOLDER];
    PyObject *message = input->message;
    bool is_kept = put(beside, input->link, NO_ACCOUNT, message, placeholder) != NULL;
    if (is_kept)
        tell_size(input->beginning, input->begun + PLACEHOLDER);
    give(batch, input->beginning, input->begun);
    if (is_kept)
        give(batch, placeholder, PLACEHOLDER);
    else
        give(batch, PyBytes_AsString(message), (size_t)PyBytes_Size(message));
    input->begun = 0;
    Py_CLEAR(input->message);
}

/* Copy input up to `wanted` bytes of the beginning of a frame; return how much. */
static size_t begin_with(struct input *input, size_t wanted, const char *from, size_t left)
{
    size_t size = input->begun < wanted ? copy(input->beginning + input->begun, wanted - input->begun, from, left) : 0;
    input->begun += size;
    return size;
}

/* Tell whether all of a frame is there that must be looked at. */
static bool is_begun(const struct input *input)
{
    return input->begun == BEGINNING ||
           (input->begun >= PLAIN_HEADER && input->begun >= size_of_frame(input->beginning));
}

/* Take the beginning of a frame from the input; return how many bytes of it are not needed again. */
static size_t begin(struct beside *beside, struct batch *batch, const char *from, size_t left)
{
    struct input *input = &beside->input;
    const char *frame = from;
    size_t had = left, copied = 0;
    if (input->begun > 0 || left < BEGINNING) { /* it may end in the middle of what must be looked at */
        copied = begin_with(input, PLAIN_HEADER, from, left);
        if (input->begun >= PLAIN_HEADER) {
            size_t size = size_of_frame(input->beginning);
            copied += begin_with(input, size < BEGINNING ? size : BEGINNING, from + copied, left - copied);
        }
        if (!is_begun(input))
            return copied;
        frame = input->beginning;
        had = input->begun;
    }
    size_t size = size_of_frame(frame);
    had = had < BEGINNING ? had : BEGINNING;
    had = had < size ? had : size;
    ptrdiff_t at = look_at_input(input, frame, had, size);
    if (at > 0 && (input->message = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size - at)) == NULL) {
        PyErr_Clear(); /* without memory it goes through the engine, as far as that has some */
        at = 0;
    }
    if (at > 0) {
        if (copied > 0)
            memcpy(PyBytes_AsString(input->message), frame + at, had - (size_t)at);
        else
            memcpy(input->beginning, frame, (size_t)at);
        input->message_at = copied > 0 ? had - (size_t)at : 0;
        input->begun = (size_t)at;
        return copied > 0 ? copied : (size_t)at;
    }
    input->passing = at == ALL ? SIZE_MAX : size;
    if (copied > 0) {
        give(batch, frame, input->begun);
        input->passing -= at == ALL ? 0 : input->begun;
        input->begun = 0;
    }
    return copied;
}

PyDoc_STRVAR(feed_frames_doc, "feed_frames(beside, transport, data): give the engine frames of the peer, as far as it takes "
                              "them, and a placeholder for each message that comes beside it.");

static PyObject *feed_frames(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct beside *beside;
    struct batch batch;
    Py_buffer data;
    if (!PyArg_ParseTuple(args, "O&O&y*:feed_frames", take_beside, &beside, take_address, &batch.transport, &data))
        return NULL;
    const char *from = data.buf;
    size_t left = (size_t)data.len;
    struct input *input = &beside->input;
    batch.size = 0;
    while (left > 0 && is_bound()) {
        size_t step;
        if (input->message != NULL) {
            size_t size = (size_t)PyBytes_Size(input->message), at = input->message_at;
            step = copy(PyBytes_AsString(input->message) + at, size - at, from, left);
            input->message_at += step;
        } else if (input->passing > 0) {
            step = input->passing < left ? input->passing : left;
            give(&batch, from, step);
            input->passing -= input->passing == SIZE_MAX ? 0 : step;
        } else {
            step = begin(beside, &batch, from, left);
        }
        if (input->message != NULL && input->message_at == (size_t)PyBytes_Size(input->message))
            give_transfer(beside, &batch);
        from += step;
        left -= step;
    }
    push(batch.transport, batch.bytes, batch.size); /* nothing if the functions are not known */
    PyBuffer_Release(&data);
    return PyErr_Occurred() != NULL ? NULL : Py_NewRef(Py_None);
}

PyDoc_STRVAR(end_frames_doc, "end_frames(beside, transport): give the engine the beginning of a frame that was kept, because "
                             "nothing more comes.");

static PyObject *end_frames(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct beside *beside;
    void *transport;
    if (!PyArg_ParseTuple(args, "O&O&:end_frames", take_beside, &beside, take_address, &transport) || !is_bound())
        return NULL;
    push(transport, beside->input.beginning, beside->input.begun);
    beside->input.begun = 0;
    Py_CLEAR(beside->input.message);
    return Py_NewRef(Py_None);
}

/* Return the message that waits for its delivery, which the caller then owns; NULL if these bytes are no placeholder. */
static PyObject *arrived(struct beside *beside, const char *bytes)
{
    if (memcmp(bytes, beside->secret, SECRET) != 0)
        return NULL;
    uint32_t number = slot_of(beside, bytes);
    return number < beside->slot_count ? empty(beside, number) : NULL;
}

PyDoc_STRVAR(message_of_doc, "message_of(beside, part): return the message that the bytes of a whole delivery stand for: "
                             "themselves, unless they are a placeholder.");

static PyObject *message_of(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct beside *beside;
    PyObject *part, *message = NULL;
    if (!PyArg_ParseTuple(args, "O&S:message_of", take_beside, &beside, &part))
        return NULL;
    if (PyBytes_Size(part) == PLACEHOLDER)
        message = arrived(beside, PyBytes_AsString(part));
    return message != NULL ? message : Py_NewRef(part);
}
