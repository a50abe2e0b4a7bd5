/* Messages that go beside the engine, in slots. Before this header: the table `pn` of _loops.c.

   The engine copies each byte of a message three times, and keeps a buffer of the message's size with each delivery
   until that is settled. Therefore it gets a placeholder for a message that fits into one frame. In the output the
   message takes the place of the placeholder, and is copied once. The engine counts frames, and not bytes, against the
   window of the peer's session. Therefore its numbers stay right. For each tag the engine would take memory of its own.
   Therefore these deliveries have no tag in the engine, and get theirs in the output, too.

   A placeholder begins with random bytes of the connection, which the peer does not know. The number of a slot and how
   often the slot was used come behind them. */

enum {
    SECRET = 8,
    PLACEHOLDER = SECRET + 8,
    MOST_FRAME = 128,                   /* more than a transfer takes that has a placeholder */
    TAG = 4,
    TAG_FIELD = 2 + TAG,                /* its type and its size come before it */
    LEAST_FRAME = 8 + 3 + PLACEHOLDER,  /* its header, the performative's descriptor and the placeholder */
    ROOM = 32 * 1024,                   /* output of the engine that is looked at together */
};
static const char PROTOCOL[4] = "AMQP", TRANSFER[3] = "\0S\x14";

struct slot {
    PyObject *message; /* NULL: the slot is free */
    void *link;        /* NULL: the link is gone */
    uint32_t account, uses, next_free;
    char tag[TAG];
    bool is_body;
};

struct account {
    void *session;
    size_t bytes; /* of messages that wait; an account without bytes may be given to another session */
};

/* What comes from the peer: see _incoming.h. */
struct input {
    PyObject *body_at; /* the function of section_heads.py */
    PyObject *links;   /* the `arrivals` of links on which the peer sends, by `key_of` */
    PyObject *last;    /* that of the last transfer, borrowed; NULL: look it up */
    uint64_t last_key;
    size_t passing;    /* bytes still to come of a frame that the engine gets as it is */
    PyObject *coming;  /* the `arrivals` of the transfer whose payload comes; NULL: there is none */
    bool more;         /* of this transfer */
    size_t payload;    /* its size */
    size_t left;       /* how much of that is still to come */
    size_t skipped;    /* the bytes of the transfer that were before what is left, when it began */
    char *head;        /* what it has before its payload */
    size_t head_size, head_room;
    char *heads; /* the rooms for the heads of the transfers behind it */
    size_t rooms; /* how many */
};

struct beside {
    char secret[SECRET];
    struct slot *slots;
    struct account *accounts;
    uint32_t slot_count, free, used; /* `free` is the first free slot, or `slot_count` */
    uint32_t gone;                   /* messages of links that are gone */
    uint32_t account_count;
    /* The output of the engine that has not gone out: first what a frame begins with, then its message, then `engine`. */
    char head[MOST_FRAME + TAG_FIELD + BODY_HEAD];
    size_t head_at, head_end;
    PyObject *message;
    size_t message_at;
    char *engine;
    size_t engine_at, engine_end;
    size_t passing; /* bytes of the frame at `engine_at` that go out as they are */
    struct input input;
};

static const char CAPSULE[] = "rstreams.beside";

static void free_beside(PyObject *capsule)
{
    struct beside *beside = PyCapsule_GetPointer(capsule, CAPSULE);
    for (uint32_t i = 0; i < beside->slot_count; i++)
        Py_XDECREF(beside->slots[i].message);
    Py_XDECREF(beside->message);
    Py_XDECREF(beside->input.body_at);
    Py_XDECREF(beside->input.links);
    Py_XDECREF(beside->input.coming);
    PyMem_Free(beside->input.head);
    PyMem_Free(beside->input.heads);
    PyMem_Free(beside->slots);
    PyMem_Free(beside->accounts);
    PyMem_Free(beside->engine);
    PyMem_Free(beside);
}

static PyObject *new_beside(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *body_at;
    char *bytes;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "y#O:new_beside", &bytes, &size, &body_at))
        return NULL;
    if (size != SECRET)
        return PyErr_Format(PyExc_ValueError, "a secret of %d bytes is needed", (int)SECRET);
    struct beside *beside = PyMem_Calloc(1, sizeof(*beside));
    if (beside == NULL)
        return PyErr_NoMemory();
    memcpy(beside->secret, bytes, SECRET);
    if ((beside->input.links = PyDict_New()) == NULL) {
        PyMem_Free(beside);
        return NULL;
    }
    beside->input.body_at = Py_NewRef(body_at);
    PyObject *capsule = PyCapsule_New(beside, CAPSULE, free_beside);
    if (capsule == NULL) {
        Py_DECREF(body_at);
        Py_DECREF(beside->input.links);
        PyMem_Free(beside);
    }
    return capsule;
}

static int take_beside(PyObject *object, void *to)
{
    void *beside = PyCapsule_GetPointer(object, CAPSULE);
    *(void **)to = beside;
    return beside != NULL;
}

/* Return the number of a session's account; -1 if there is no memory. */
static int64_t account_of(struct beside *beside, void *session)
{
    int64_t unused = -1;
    for (uint32_t i = 0; i < beside->account_count; i++) {
        if (beside->accounts[i].session == session)
            return i;
        if (beside->accounts[i].bytes == 0)
            unused = i;
    }
    if (unused < 0) {
        struct account *more = PyMem_Realloc(beside->accounts, (beside->account_count + 1) * sizeof(*more));
        if (more == NULL)
            return -1;
        beside->accounts = more;
        unused = beside->account_count++;
    }
    beside->accounts[unused] = (struct account){session, 0};
    return unused;
}

static bool add_slots(struct beside *beside)
{
    uint32_t count = beside->slot_count ? 2 * beside->slot_count : 64;
    struct slot *more = PyMem_Realloc(beside->slots, count * sizeof(*more));
    if (more == NULL)
        return false;
    for (uint32_t i = beside->slot_count; i < count; i++)
        more[i] = (struct slot){.next_free = i + 1};
    beside->slots = more;
    beside->slot_count = count; /* `free` was the old count, the first of the new slots */
    return true;
}

/* Keep a message in a slot and write its placeholder; NULL if there is no memory: it then goes through the engine. */
static struct slot *put(struct beside *beside, void *link, uint32_t account, PyObject *message, char *placeholder)
{
    if (beside->free == beside->slot_count && !add_slots(beside))
        return NULL;
    uint32_t number = beside->free;
    struct slot *slot = &beside->slots[number];
    beside->free = slot->next_free;
    slot->message = Py_NewRef(message);
    slot->link = link;
    slot->account = account;
    slot->uses++;
    beside->used++;
    beside->accounts[account].bytes += (size_t)PyBytes_Size(message);
    memcpy(placeholder, beside->secret, SECRET);
    memcpy(placeholder + SECRET, &number, 4);
    memcpy(placeholder + SECRET + 4, &slot->uses, 4);
    return slot;
}

/* Find the slot of the message that a placeholder stands for: its number, or `slot_count` if it was forgotten. */
static uint32_t slot_of(const struct beside *beside, const char *placeholder)
{
    uint32_t number, uses;
    memcpy(&number, placeholder + SECRET, 4);
    memcpy(&uses, placeholder + SECRET + 4, 4);
    bool is_kept = number < beside->slot_count && beside->slots[number].message != NULL && beside->slots[number].uses == uses;
    return is_kept ? number : beside->slot_count;
}

/* Empty a slot; return its message, which the caller owns. */
static PyObject *empty(struct beside *beside, uint32_t number)
{
    struct slot *slot = &beside->slots[number];
    PyObject *message = slot->message;
    slot->message = NULL;
    beside->gone -= slot->link == NULL;
    slot->next_free = beside->free;
    beside->free = number;
    beside->used--;
    beside->accounts[slot->account].bytes -= (size_t)PyBytes_Size(message);
    return message;
}

static PyObject *forget(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct beside *beside;
    void *link;
    if (!PyArg_ParseTuple(args, "O&O&:forget", take_beside, &beside, take_address, &link))
        return NULL;
    for (uint32_t i = 0; beside->used > 0 && i < beside->slot_count; i++)
        if (beside->slots[i].message != NULL && beside->slots[i].link == link) {
            beside->slots[i].link = NULL;
            beside->gone++;
        }
    return Py_NewRef(Py_None);
}

/* Empty the slots of links that are gone: all output has been taken, and the engine sends no more for them. */
static void empty_gone(struct beside *beside)
{
    for (uint32_t i = 0; beside->gone > 0 && i < beside->slot_count; i++)
        if (beside->slots[i].message != NULL && beside->slots[i].link == NULL)
            Py_DECREF(empty(beside, i));
}

static PyObject *waiting(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct beside *beside;
    void *session;
    if (!PyArg_ParseTuple(args, "O&O&:waiting", take_beside, &beside, take_address, &session))
        return NULL;
    size_t bytes = 0;
    for (uint32_t i = 0; beside->used > 0 && i < beside->account_count; i++)
        if (beside->accounts[i].session == session)
            bytes = beside->accounts[i].bytes;
    return PyLong_FromSize_t(bytes);
}

/* ----------------------------------------------------------------------------------------------------------- output */

/* Take more output of the engine; false if there is none, or no memory for it, which is an error. */
static bool take_more(struct beside *beside, void *transport)
{
    size_t had = beside->engine_end - beside->engine_at;
    ptrdiff_t size = pn.transport_pending(transport);
    if (size <= 0)
        return false;
    if (beside->engine == NULL && (beside->engine = PyMem_Malloc(ROOM)) == NULL)
        return PyErr_NoMemory() != NULL;
    memmove(beside->engine, beside->engine + beside->engine_at, had);
    if ((size_t)size > ROOM - had)
        size = (ptrdiff_t)(ROOM - had);
    pn.transport_peek(transport, beside->engine + had, (size_t)size);
    pn.transport_pop(transport, (size_t)size);
    beside->engine_at = 0;
    beside->engine_end = had + (size_t)size;
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
        size = copy_with_tag(beside->head, frame, size, slot->tag);
        beside->message = empty(beside, number);
        beside->message_at = 0;
        Py_ssize_t bytes = PyBytes_Size(beside->message);
        if (slot->is_body)
            size = (size_t)(write_body_head(beside->head + size, bytes) - beside->head);
        whole = size + (size_t)bytes;
    } else {
        memcpy(beside->head, frame, size);
    }
    beside->head_at = 0;
    beside->head_end = size;
    tell_size(beside->head, whole);
}

/* Look at the frame that begins at `engine_at`; false if too little of it is here. */
static bool look(struct beside *beside)
{
    const char *at = beside->engine + beside->engine_at;
    size_t had = beside->engine_end - beside->engine_at;
    if (had < 8)
        return false;
    size_t size = memcmp(at, PROTOCOL, 4) == 0 ? 8 : size_of_frame(at);
    if (size < LEAST_FRAME || size > MOST_FRAME) {
        beside->passing = size < 8 ? 8 : size;
        return true;
    }
    if (had < size)
        return false;
    if (at[4] == 2 && at[5] == 0 && memcmp(at + 8, TRANSFER, 3) == 0 &&
        memcmp(at + size - PLACEHOLDER, beside->secret, SECRET) == 0) {
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

static size_t take_output(struct beside *beside, void *transport, char *to, size_t room)
{
    size_t total = 0, size;
    while (total < room) {
        size_t had = beside->engine_end - beside->engine_at;
        if (beside->head_at < beside->head_end) {
            size = copy(to + total, room - total, beside->head + beside->head_at, beside->head_end - beside->head_at);
            beside->head_at += size;
            total += size;
        } else if (beside->message != NULL) {
            size_t left = (size_t)PyBytes_Size(beside->message) - beside->message_at;
            size = copy(to + total, room - total, PyBytes_AsString(beside->message) + beside->message_at, left);
            beside->message_at += size;
            total += size;
            if (size == left)
                Py_CLEAR(beside->message);
        } else if (beside->passing > 0 && had > 0) {
            size = copy(to + total, room - total, beside->engine + beside->engine_at,
                        beside->passing < had ? beside->passing : had);
            beside->engine_at += size;
            beside->passing -= size;
            total += size;
        } else if ((beside->passing > 0 || !look(beside)) && !take_more(beside, transport)) {
            if (had == 0)
                break;
            beside->passing = had; /* the engine has ended inside of a frame */
        }
    }
    if (total < room)
        empty_gone(beside);
    if (beside->engine_at == beside->engine_end) {
        PyMem_Free(beside->engine); /* many connections have no output for a long time */
        beside->engine = NULL;
        beside->engine_at = beside->engine_end = 0;
    }
    return total;
}

static PyObject *output(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct beside *beside;
    void *transport;
    Py_buffer buffer;
    if (!PyArg_ParseTuple(args, "O&O&w*:output", take_beside, &beside, take_address, &transport, &buffer))
        return NULL;
    size_t total = is_bound() ? take_output(beside, transport, buffer.buf, (size_t)buffer.len) : 0;
    PyBuffer_Release(&buffer);
    return PyErr_Occurred() != NULL ? NULL : PyLong_FromSize_t(total);
}
