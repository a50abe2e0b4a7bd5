/* The output of a connection: that of the engine, with messages in the place of their placeholders. Before: _beside.h.

   Frames of some kinds are told to a function, which may give another frame in their place. */

enum {
    ROOM = 32 * 1024,  /* output of the engine that is looked at together */
    SPLIT = 32 * 1024, /* so many bytes of a message are a piece by themselves, and not copied */
};
static const char PROTOCOL[4] = "AMQP";

/* One call of `output`. */
struct output {
    PyObject *room; /* a memoryview */
    char *to;
    size_t size, used, begun; /* the bytes of the room: all, those that are used, and where the next piece begins */
    PyObject *pieces;
    size_t apart, enough; /* the bytes of messages that are pieces by themselves: how many there are, and how many end it */
    unsigned int told; /* the performatives that are told: bit n for the one of code 0x10 + n */
    PyObject *on_frame;
};

static bool is_full(const struct output *output)
{
    return output->used == output->size || output->apart >= output->enough;
}

/* Take more output of the engine; false if there is none, or no memory for it, which is an error. */
static bool take_more(struct beside *beside)
{
    size_t had = beside->engine_end - beside->engine_at, room = beside->wanted > ROOM ? beside->wanted : ROOM;
    ptrdiff_t size = pn.transport_pending(beside->transport);
    if (size <= 0)
        return false;
    if (beside->engine_at > 0)
        memmove(beside->engine, beside->engine + beside->engine_at, had);
    beside->engine_at = 0;
    beside->engine_end = had;
    if (beside->engine_room < room) {
        char *more = PyMem_Realloc(beside->engine, room);
        if (more == NULL)
            return PyErr_NoMemory() != NULL;
        beside->engine = more;
        beside->engine_room = room;
    }
    if ((size_t)size > beside->engine_room - had)
        size = (ptrdiff_t)(beside->engine_room - had);
    pn.transport_peek(beside->transport, beside->engine + had, (size_t)size);
    pn.transport_pop(beside->transport, (size_t)size);
    beside->engine_end += (size_t)size;
    return true;
}

static uint32_t size_of_frame(const char *at)
{
    return read_u32((const unsigned char *)at);
}

static void tell_size(char *frame, size_t size)
{
    const char told[4] = {(char)(size >> 24), (char)(size >> 16), (char)(size >> 8), (char)size};
    memcpy(frame, told, 4);
}

/* Skip a uint of the engine. */
static size_t skip_field(const char *frame, size_t at)
{
    return at + (frame[at] == 0x70 ? 5 : frame[at] == 0x52 ? 2 : 1);
}

/* Copy the first `size` bytes of a transfer, with the tag in the place of an empty one or of none; return how many. */
static size_t copy_with_tag(char *to, const char *frame, size_t size, const char *tag)
{
    bool is_short = frame[11] == (char)0xc0; /* a list whose size has one byte, and not four */
    size_t at = skip_field(frame, skip_field(frame, is_short ? 14 : 20)); /* behind the handle and the delivery-id */
    size_t behind = at + (frame[at] == 0x40 ? 1 : 2);
    memcpy(to, frame, at);
    to[at] = (char)0xa0;
    to[at + 1] = TAG;
    memcpy(to + at + 2, tag, TAG);
    memcpy(to + at + TAG_FIELD, frame + behind, size - behind);
    to[is_short ? 12 : 15] += (char)(TAG_FIELD - (behind - at)); /* below 256: the whole frame is */
    return size + TAG_FIELD - (behind - at);
}

/* Put the message of a frame in the place of its placeholder: fill `head` and `message`. The frame of a message that
   was forgotten goes out empty. */
static void replace(struct beside *beside, const char *frame, size_t size)
{
    size -= PLACEHOLDER;
    uint32_t number = slot_of(beside, frame + size);
    size_t whole = size;
    if (number < beside->slot_count) {
        const struct slot *slot = &beside->slots[number];
        if (slot->account == NO_ACCOUNT)
            memcpy(beside->head, frame, size); /* the engine has its tag */
        else
            size = copy_with_tag(beside->head, frame, size, slot->tag);
        if (slot->is_body)
            size = (size_t)(write_body_head(beside->head + size, PyBytes_Size(slot->message)) - beside->head);
        beside->message_at = slot->at;
        beside->message_end = slot->end;
        whole = size + slot->end - slot->at;
        beside->message = empty(beside, number);
    } else {
        memcpy(beside->head, frame, size);
    }
    beside->head_at = 0;
    beside->head_end = size;
    tell_size(beside->head, whole);
}

/* Tell a frame; another one that is given for it goes out in its place. False for an error. */
static bool tell(struct beside *beside, const struct output *output, size_t size)
{
    PyObject *given = PyObject_CallFunction(output->on_frame, "y#", beside->engine + beside->engine_at, (Py_ssize_t)size);
    beside->passing = given == Py_None ? size : 0;
    if (given == Py_None)
        Py_CLEAR(given);
    else if (given != NULL && !PyBytes_Check(given))
        PyErr_SetString(PyExc_TypeError, "a frame is needed, or None");
    if (PyErr_Occurred() != NULL) {
        Py_XDECREF(given);
        return false;
    }
    if (given != NULL) {
        beside->engine_at += size;
        beside->message = given;
        beside->message_at = 0;
        beside->message_end = (size_t)PyBytes_Size(given);
    }
    return true;
}

/* Look at the frame that begins at `engine_at`; false if too little of it is here, or for an error. */
static bool look(struct beside *beside, const struct output *output)
{
    const char *at = beside->engine + beside->engine_at;
    size_t had = beside->engine_end - beside->engine_at;
    if (had < 8)
        return false;
    size_t size = memcmp(at, PROTOCOL, 4) == 0 ? 8 : size_of_frame(at);
    bool is_told = false, may_be_replaced = false;
    if (size >= 11 && at[4] == 2 && at[5] == 0) {
        if (had < 11)
            return false;
        unsigned int kind = (unsigned char)at[10] - 0x10u;
        is_told = kind < 9 && at[8] == 0 && at[9] == 'S' && output->told >> kind & 1;
        may_be_replaced = kind == A_TRANSFER - 0x10 && size >= LEAST_FRAME && size <= MOST_FRAME;
    }
    if (!is_told && !may_be_replaced) {
        beside->passing = size < 8 ? 8 : size;
        return true;
    }
    beside->wanted = size;
    if (had < size)
        return false;
    beside->wanted = 0;
    if (is_told)
        return tell(beside, output, size);
    if (memcmp(at + size - PLACEHOLDER, beside->secret, SECRET) == 0) {
        replace(beside, at, size);
        beside->engine_at += size;
    } else {
        beside->passing = size;
    }
    return true;
}

/* Copy up to `size` bytes and up to the end of the room; return how many. */
static size_t copy(char *to, size_t room, const char *from, size_t size)
{
    if (size > room)
        size = room;
    memcpy(to, from, size);
    return size;
}

/* Add a part of a memoryview to the pieces; false for an error. */
static bool add_piece(const struct output *output, PyObject *view, size_t begin, size_t end)
{
    return begin == end || append(output->pieces, PySequence_GetSlice(view, (Py_ssize_t)begin, (Py_ssize_t)end)) == 0;
}

/* Take what is left of the message that goes out: into the room, or as a piece by itself. False for an error. */
static bool take_message(struct beside *beside, struct output *output)
{
    size_t left = beside->message_end - beside->message_at;
    bool is_taken = true;
    if (left >= SPLIT) {
        PyObject *view = PyMemoryView_FromObject(beside->message);
        is_taken = view != NULL && add_piece(output, output->room, output->begun, output->used) &&
                   add_piece(output, view, beside->message_at, beside->message_end);
        Py_XDECREF(view);
        output->begun = output->used;
        output->apart += left;
        beside->message_at += left;
    } else {
        size_t size = copy(output->to + output->used, output->size - output->used,
                           PyBytes_AsString(beside->message) + beside->message_at, left);
        output->used += size;
        beside->message_at += size;
    }
    if (beside->message_at == beside->message_end)
        Py_CLEAR(beside->message);
    return is_taken;
}

/* Fill the room and the pieces; false for an error. */
static bool take_output(struct beside *beside, struct output *output)
{
    bool all = false;
    while (!all && !is_full(output)) {
        char *to = output->to + output->used;
        size_t room = output->size - output->used, had = beside->engine_end - beside->engine_at;
        if (beside->head_at < beside->head_end) {
            size_t size = copy(to, room, beside->head + beside->head_at, beside->head_end - beside->head_at);
            beside->head_at += size;
            output->used += size;
        } else if (beside->message != NULL) {
            if (!take_message(beside, output))
                return false;
        } else if (beside->passing > 0 && had > 0) {
            size_t size = copy(to, room, beside->engine + beside->engine_at, beside->passing < had ? beside->passing : had);
            beside->engine_at += size;
            beside->passing -= size;
            output->used += size;
        } else if (beside->passing > 0 || !look(beside, output)) {
            if (PyErr_Occurred() != NULL)
                return false;
            if (!take_more(beside)) {
                if (PyErr_Occurred() != NULL)
                    return false;
                all = had == 0;
                if (!all)
                    beside->passing = had; /* the engine has ended inside of a frame */
            }
        }
    }
    if (all)
        empty_gone(beside);
    if (beside->engine_at == beside->engine_end) {
        PyMem_Free(beside->engine); /* many connections have no output for a long time */
        beside->engine = NULL;
        beside->engine_at = beside->engine_end = beside->engine_room = 0;
    }
    return add_piece(output, output->room, output->begun, output->used);
}

static PyObject *output(PyObject *self, PyObject *args)
{
    struct output output = {0};
    Py_ssize_t enough;
    Py_buffer buffer;
    if (!PyArg_ParseTuple(args, "OnIO:output", &output.room, &enough, &output.told, &output.on_frame) ||
        PyObject_GetBuffer(output.room, &buffer, PyBUF_WRITABLE) < 0)
        return NULL;
    output.enough = enough > 0 ? (size_t)enough : 0;
    output.to = buffer.buf;
    output.size = (size_t)buffer.len;
    output.pieces = PyList_New(0);
    bool is_taken = output.pieces != NULL && take_output((struct beside *)self, &output);
    PyBuffer_Release(&buffer);
    if (is_taken)
        return Py_BuildValue("NnN", output.pieces, (Py_ssize_t)output.used, PyBool_FromLong(is_full(&output)));
    Py_XDECREF(output.pieces);
    return NULL;
}
