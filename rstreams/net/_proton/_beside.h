/* What a connection has beside its engine: the messages that go, in slots. Before this header: the table `pn` of _loops.c.

   The engine copies each byte of a message three times, and keeps a buffer of the message's size with each delivery
   until that is settled. Therefore it gets a placeholder for each frame of a message. In the output the bytes of the frame
   take the place of the placeholder (_output.h). The engine counts frames, and not bytes, against the window of the peer's
   session. Therefore its numbers stay right. For each tag the engine would take memory of its own. Therefore a delivery of
   one frame has no tag in the engine, and gets its tag in the output, too.

   A placeholder begins with random bytes of the connection, which the peer does not know. The number of a slot and how
   often the slot was used come behind them. */

enum {
    SECRET = 8,
    PLACEHOLDER = SECRET + 8,
    MOST_FRAME = 128,                   /* more than a transfer takes that has a placeholder */
    TAG = 4,
    TAG_FIELD = 2 + TAG,                /* its type and its size come before it */
    LEAST_FRAME = 8 + 3 + PLACEHOLDER,  /* its header, the performative's descriptor and the placeholder */
    NO_ACCOUNT = UINT32_MAX,
};

/* The bytes of one frame: a message, or a part of it. */
struct slot {
    PyObject *message; /* NULL: the slot is free */
    size_t at, end;    /* which of its bytes */
    void *owner;       /* its link, or the delivery of a part that is not the last; NULL: it is gone */
    uint32_t account;  /* of its session, or `NO_ACCOUNT`: a part */
    uint32_t uses, next_free;
    char tag[TAG]; /* of a whole message */
    bool is_body;  /* the head of a body comes before it */
};

struct account {
    void *session;
    size_t bytes; /* of messages that wait; an account without bytes may be given to another session */
};

/* The delivery-ids of a session that the peer sends in. */
struct numbers {
    uint32_t next;
    bool begun;
};

/* What comes from the peer: see _incoming.h. */
struct input {
    struct numbers *numbers; /* by channel */
    size_t channels;         /* how many of them there are */
    bool out_of_order;       /* `take` has stopped at a transfer whose delivery-id is another one than is due */
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
    PyObject_HEAD
    void *transport;
    char secret[SECRET];
    struct slot *slots;
    struct account *accounts;
    uint32_t slot_count, free, used; /* `free` is the first free slot, or `slot_count` */
    uint32_t gone;                   /* slots whose owners are gone */
    uint32_t account_count;
    size_t part_bytes;               /* of all parts */
    /* The output of the engine that has not gone out: first what a frame begins with, then its message, then `engine`. */
    char head[MOST_FRAME + TAG_FIELD + BODY_HEAD];
    size_t head_at, head_end;
    PyObject *message;
    size_t message_at, message_end;
    char *engine;
    size_t engine_at, engine_end, engine_room;
    size_t passing; /* bytes of the frame at `engine_at` that go out as they are */
    size_t wanted;  /* the bytes of that frame, if all of it is to be here; else 0 */
    struct input input;
};

static void free_beside(PyObject *self)
{
    struct beside *beside = (struct beside *)self;
    PyTypeObject *type = Py_TYPE(self);
    for (uint32_t i = 0; i < beside->slot_count; i++)
        Py_XDECREF(beside->slots[i].message);
    Py_XDECREF(beside->message);
    Py_XDECREF(beside->input.links);
    Py_XDECREF(beside->input.coming);
    PyMem_Free(beside->input.numbers);
    PyMem_Free(beside->input.head);
    PyMem_Free(beside->input.heads);
    PyMem_Free(beside->slots);
    PyMem_Free(beside->accounts);
    PyMem_Free(beside->engine);
    free_object(self, type);
}

static PyObject *new_beside(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(names))
{
    void *transport;
    char *secret;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "O&y#:Loops", take_address, &transport, &secret, &size) || !is_bound())
        return NULL;
    if (size != SECRET)
        return PyErr_Format(PyExc_ValueError, "a secret of %d bytes is needed", (int)SECRET);
    struct beside *beside = (struct beside *)PyType_GenericAlloc(type, 0);
    if (beside == NULL)
        return NULL;
    beside->transport = transport;
    memcpy(beside->secret, secret, SECRET);
    if ((beside->input.links = PyDict_New()) == NULL)
        Py_CLEAR(beside);
    return (PyObject *)beside;
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

/* Return the number that counts the bytes of a slot. */
static size_t *bytes_of(struct beside *beside, const struct slot *slot)
{
    return slot->account == NO_ACCOUNT ? &beside->part_bytes : &beside->accounts[slot->account].bytes;
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

/* Keep the bytes of a frame in a slot and write its placeholder; NULL if there is no memory. */
static struct slot *put(struct beside *beside, void *owner, uint32_t account, PyObject *message, size_t at, size_t end,
                        char *placeholder)
{
    if (beside->free == beside->slot_count && !add_slots(beside)) {
        PyErr_NoMemory();
        return NULL;
    }
    uint32_t number = beside->free, uses = beside->slots[number].uses + 1;
    struct slot *slot = &beside->slots[number];
    beside->free = slot->next_free;
    *slot = (struct slot){.message = Py_NewRef(message), .at = at, .end = end, .owner = owner, .account = account, .uses = uses};
    beside->used++;
    *bytes_of(beside, slot) += end - at;
    memcpy(placeholder, beside->secret, SECRET);
    memcpy(placeholder + SECRET, &number, 4);
    memcpy(placeholder + SECRET + 4, &uses, 4);
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
    beside->gone -= slot->owner == NULL;
    slot->next_free = beside->free;
    beside->free = number;
    beside->used--;
    *bytes_of(beside, slot) -= slot->end - slot->at;
    return message;
}

static PyObject *forget(PyObject *self, PyObject *args)
{
    struct beside *beside = (struct beside *)self;
    void *owner;
    if (!PyArg_ParseTuple(args, "O&:forget", take_address, &owner))
        return NULL;
    for (uint32_t i = 0; beside->used > 0 && i < beside->slot_count; i++)
        if (beside->slots[i].message != NULL && beside->slots[i].owner == owner) {
            beside->slots[i].owner = NULL;
            beside->gone++;
        }
    return Py_NewRef(Py_None);
}

/* Empty the slots whose owners are gone: all output has been taken, and the engine sends no more for them. */
static void empty_gone(struct beside *beside)
{
    for (uint32_t i = 0; beside->gone > 0 && i < beside->slot_count; i++)
        if (beside->slots[i].message != NULL && beside->slots[i].owner == NULL)
            Py_DECREF(empty(beside, i));
}

static PyObject *waiting(PyObject *self, PyObject *args)
{
    struct beside *beside = (struct beside *)self;
    void *session;
    if (!PyArg_ParseTuple(args, "O&:waiting", take_address, &session))
        return NULL;
    size_t bytes = 0;
    for (uint32_t i = 0; beside->used > 0 && i < beside->account_count; i++)
        if (beside->accounts[i].session == session)
            bytes = beside->accounts[i].bytes;
    return PyLong_FromSize_t(bytes);
}

static PyObject *part_bytes(PyObject *self, PyObject *Py_UNUSED(none))
{
    return PyLong_FromSize_t(((struct beside *)self)->part_bytes);
}
