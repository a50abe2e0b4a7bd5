/* The messages that come. Before this header: _frame_walk.h, _beside.h.

   The engine copies each byte of a message three times, and keeps a buffer of the message's size with each delivery until
   that is settled. Therefore it gets transfers without their payloads. These are copied once, out of the input, into a
   queue of the link. The engine's deliveries of a link are read in the order in which they came: the first message of the
   queue is that of the link's current delivery.

   The one exception are sessions with a window, where the engine must count the bytes. There the payloads go through the
   engine, and are read out of it into the same queue.

   Spec: AMQP 1.0 sections 2.3 (framing) and 2.7.5 (transfer). */

enum { FEW = 64 }; /* messages for which a link keeps the memory of its queue */

/* The message of one delivery. */
struct message {
    PyObject *head;  /* what comes before a body whose size it tells; NULL if there is none */
    PyObject *bytes; /* the memory of the rest; NULL: none yet */
    size_t size;     /* how much of it has come */
    size_t told;     /* the size of the body; 0 if none was told */
    uint32_t format;
    bool unwanted; /* what comes of it is thrown away */
};

struct arrivals {
    PyObject_HEAD
    void *link;
    bool beside;   /* payloads do not go to the engine */
    bool in_parts; /* messages are read while they come */
    bool inside;   /* of a delivery of several transfers, behind the last one */
    bool closed;   /* what comes is thrown away: its link is gone */
    struct message *queue;
    uint32_t number; /* the delivery-id of the message that came last */
    size_t first, count, room;
};

static PyTypeObject *arrivals_type;

static void clear_message(struct message *message)
{
    Py_CLEAR(message->head);
    Py_CLEAR(message->bytes);
    message->size = message->told = 0;
}

static void clear_queue(struct arrivals *arrivals)
{
    for (size_t i = 0; i < arrivals->count; i++)
        clear_message(&arrivals->queue[arrivals->first + i]);
    PyMem_Free(arrivals->queue);
    arrivals->queue = NULL;
    arrivals->first = arrivals->count = arrivals->room = 0;
}

static void free_arrivals(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    clear_queue((struct arrivals *)self);
    free_object(self, type);
}

static struct message *first_of(const struct arrivals *arrivals)
{
    return arrivals->count > 0 ? &arrivals->queue[arrivals->first] : NULL;
}

static struct message *last_of(const struct arrivals *arrivals)
{
    return arrivals->count > 0 ? &arrivals->queue[arrivals->first + arrivals->count - 1] : NULL;
}

static struct message *add_message(struct arrivals *arrivals)
{
    if (arrivals->first + arrivals->count == arrivals->room) {
        if (arrivals->first >= arrivals->room / 2 && arrivals->room > 0) {
            memmove(arrivals->queue, arrivals->queue + arrivals->first, arrivals->count * sizeof(struct message));
            arrivals->first = 0;
        } else {
            size_t room = arrivals->room > 0 ? 2 * arrivals->room : 16;
            struct message *more = PyMem_Realloc(arrivals->queue, room * sizeof(*more));
            if (more == NULL) {
                PyErr_NoMemory();
                return NULL;
            }
            arrivals->queue = more;
            arrivals->room = room;
        }
    }
    arrivals->count++;
    struct message *added = last_of(arrivals);
    *added = (struct message){0};
    return added;
}

static void remove_first(struct arrivals *arrivals)
{
    if (arrivals->count == 0)
        return;
    clear_message(first_of(arrivals));
    arrivals->first++;
    if (--arrivals->count > 0)
        return;
    arrivals->first = 0;
    if (arrivals->room > FEW)
        clear_queue(arrivals); /* many links have nothing for a long time */
}

/* Tell whether a message has its bytes; without memory to give them another size they are gone, which is an error. */
static bool has_bytes(const struct message *message)
{
    return message->bytes != NULL || message->size == 0 || PyErr_NoMemory() != NULL;
}

/* Make one piece of a message's head and the rest. */
static bool join(struct message *message)
{
    if (!has_bytes(message))
        return false;
    size_t head = (size_t)PyBytes_Size(message->head);
    PyObject *whole = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(head + message->size));
    if (whole == NULL)
        return false;
    memcpy(PyBytes_AsString(whole), PyBytes_AsString(message->head), head);
    if (message->size > 0)
        memcpy(PyBytes_AsString(whole) + head, PyBytes_AsString(message->bytes), message->size);
    size_t size = head + message->size;
    clear_message(message);
    message->bytes = whole;
    message->size = size;
    return true;
}

/* Give bytes that nobody else has another size; without memory there are none. Large ones grow without a copy, and leave
   no holes behind. */
static bool resize(PyObject **bytes, size_t size)
{
    if (*bytes == NULL)
        *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    else
        _PyBytes_Resize(bytes, (Py_ssize_t)size);
    return *bytes != NULL;
}

/* Make room for more bytes of a message; return where they begin, or NULL without memory, which is an error. */
static char *reserve(struct message *message, size_t more)
{
    if (!has_bytes(message) || (message->told > 0 && message->size + more > message->told && !join(message)))
        return NULL;
    size_t needed = message->size + more, room = message->bytes == NULL ? 0 : (size_t)PyBytes_Size(message->bytes);
    if (message->bytes == NULL || needed > room) {
        size_t larger = 2 * room > needed ? 2 * room : needed;
        if (message->told > 0 && larger > message->told)
            larger = message->told;
        if (!resize(&message->bytes, larger))
            return NULL;
    }
    return PyBytes_AsString(message->bytes) + message->size;
}

/* Take the whole bytes out of a message, which then has none; the caller owns them. Its head stays. */
static PyObject *take_bytes(struct message *message)
{
    bool is_split = message->head != NULL && message->size == message->told;
    if (!has_bytes(message) || (message->head != NULL && !is_split && !join(message)))
        return NULL;
    if (message->bytes == NULL)
        return PyBytes_FromStringAndSize("", 0);
    if (message->size < (size_t)PyBytes_Size(message->bytes) && !resize(&message->bytes, message->size))
        return NULL;
    PyObject *bytes = message->bytes;
    message->bytes = NULL;
    message->size = message->told = 0;
    return bytes;
}

/* ------------------------------------------------------------------------------------------------------------ links */

static uint64_t key_of(unsigned int channel, uint32_t handle)
{
    return (uint64_t)channel << 32 | handle;
}

static PyObject *new_arrivals(PyObject *Py_UNUSED(self), PyObject *args)
{
    void *link;
    int beside;
    if (!PyArg_ParseTuple(args, "O&p:arrivals", take_address, &link, &beside))
        return NULL;
    struct arrivals *arrivals = (struct arrivals *)PyType_GenericAlloc(arrivals_type, 0);
    if (arrivals != NULL) {
        arrivals->link = link;
        arrivals->beside = beside;
    }
    return (PyObject *)arrivals;
}

static PyObject *expect(PyObject *self, PyObject *args)
{
    struct input *input = &((struct beside *)self)->input;
    unsigned int channel, handle;
    PyObject *arrivals;
    if (!PyArg_ParseTuple(args, "IIO:expect", &channel, &handle, &arrivals))
        return NULL;
    if (arrivals != Py_None && !PyObject_TypeCheck(arrivals, arrivals_type))
        return PyErr_Format(PyExc_TypeError, "the messages of a link are needed");
    input->last = NULL;
    PyObject *key = PyLong_FromUnsignedLongLong(key_of(channel, handle));
    if (key == NULL)
        return NULL;
    int failed = 0;
    if (arrivals != Py_None)
        failed = PyDict_SetItem(input->links, key, arrivals);
    else if (PyDict_GetItemWithError(input->links, key) != NULL)
        failed = PyDict_DelItem(input->links, key);
    else
        failed = PyErr_Occurred() != NULL;
    Py_DECREF(key);
    return failed ? NULL : Py_NewRef(Py_None);
}

/* Return the messages of the link with a key, which are borrowed; NULL if there is none. */
static struct arrivals *arrivals_at(struct input *input, uint64_t key)
{
    if (input->last == NULL || input->last_key != key) {
        PyObject *number = PyLong_FromUnsignedLongLong(key);
        input->last = number == NULL ? NULL : PyDict_GetItemWithError(input->links, number);
        input->last_key = key;
        Py_XDECREF(number);
    }
    return (struct arrivals *)input->last;
}

static PyObject *begin_session(PyObject *self, PyObject *args)
{
    struct input *input = &((struct beside *)self)->input;
    unsigned int channel;
    if (!PyArg_ParseTuple(args, "I:begin_session", &channel))
        return NULL;
    if (channel >= input->channels) {
        struct numbers *more = PyMem_Realloc(input->numbers, ((size_t)channel + 1) * sizeof(*more));
        if (more == NULL)
            return PyErr_NoMemory();
        memset(more + input->channels, 0, (channel + 1 - input->channels) * sizeof(*more));
        input->numbers = more;
        input->channels = (size_t)channel + 1;
    }
    input->numbers[channel] = (struct numbers){0};
    return Py_NewRef(Py_None);
}

static PyObject *read_in_parts(PyObject *self, PyObject *Py_UNUSED(none))
{
    ((struct arrivals *)self)->in_parts = true;
    return Py_NewRef(Py_None);
}

/* ---------------------------------------------------------------------------------------------------------- reading */

enum { RECEIVED = 0x23 }; /* the state "received" of a delivery (3.4.1) */

/* Read what the engine has of the current delivery into its message; false without memory. */
static bool take_in(const struct arrivals *arrivals, void *delivery, struct message *message)
{
    size_t size = pn.delivery_pending(delivery);
    char *to = size > 0 ? reserve(message, size) : NULL;
    if (size > 0 && to == NULL)
        return false;
    if (size > 0 && pn.link_recv(arrivals->link, to, size) != (ptrdiff_t)size)
        return PyErr_Format(PyExc_SystemError, "the engine gave less of a message than it had") != NULL;
    message->size += size;
    return true;
}

static PyObject *read_run(PyObject *self, PyObject *args)
{
    struct arrivals *arrivals = (struct arrivals *)self;
    void *delivery;
    Py_ssize_t most, most_bytes, count = 0;
    if (!PyArg_ParseTuple(args, "nn:read", &most, &most_bytes))
        return NULL;
    size_t limit = most_bytes > 0 ? (size_t)most_bytes : PY_SSIZE_T_MAX;
    bool settled = false, is_split = false;
    if (arrivals->count == 0 && !arrivals->closed && (delivery = pn.link_current(arrivals->link)) != NULL && !pn.delivery_partial(delivery))
        return PyErr_Format(PyExc_SystemError, "the engine has a delivery whose transfers were not seen");
    PyObject *messages = PyList_New(0), *deliveries = NULL;
    size_t room = arrivals->count < (size_t)(most > 0 ? most : 0) ? arrivals->count : (size_t)(most > 0 ? most : 0);
    void **taken = PyMem_Malloc((room + 1) * sizeof(void *));
    if (taken == NULL)
        PyErr_NoMemory();
    if (taken == NULL || messages == NULL)
        goto failed;
    while (count < (Py_ssize_t)room && !is_split && (delivery = pn.link_current(arrivals->link)) != NULL && !pn.delivery_partial(delivery)) {
        struct message *message = first_of(arrivals);
        if (message == NULL)
            break;
        if (pn.delivery_settled(delivery) != settled) {
            if (count > 0)
                break;
            settled = !settled;
        }
        if (pn.delivery_aborted(delivery)) {
            pn.delivery_settle(delivery); /* this also advances */
            remove_first(arrivals);
            continue;
        }
        size_t size = message->size + pn.delivery_pending(delivery) + (message->head != NULL ? (size_t)PyBytes_Size(message->head) : 0);
        if (message->format != 0 || size > limit || (message->head != NULL && count > 0))
            break;
        PyObject *bytes = take_in(arrivals, delivery, message) ? take_bytes(message) : NULL;
        if (bytes == NULL && count > 0 && PyErr_ExceptionMatches(PyExc_MemoryError)) {
            PyErr_Clear(); /* the messages before it are handed over first */
            break;
        }
        is_split = bytes != NULL && message->head != NULL;
        if (is_split && PyList_Append(messages, message->head) < 0)
            Py_CLEAR(bytes);
        if (append(messages, bytes) < 0)
            goto failed;
        remove_first(arrivals);
        if (settled)
            pn.delivery_settle(delivery); /* this also advances */
        else
            pn.link_advance(arrivals->link);
        taken[count++] = delivery;
    }
    deliveries = as_deliveries(PyBytes_FromStringAndSize((const char *)taken, count * (Py_ssize_t)sizeof(void *)));
    if (deliveries == NULL)
        goto failed;
    bool starved = count > 0 && !settled && pn.delivery_remote_state(taken[count - 1]) == RECEIVED;
    PyMem_Free(taken);
    return Py_BuildValue("NNNNN", deliveries, messages, PyBool_FromLong(settled), PyBool_FromLong(is_split),
                         PyBool_FromLong(starved));
failed:
    PyMem_Free(taken);
    Py_XDECREF(messages);
    return NULL;
}

static PyObject *read_part(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct arrivals *arrivals = (struct arrivals *)self;
    void *delivery = pn.link_current(arrivals->link);
    struct message *message = first_of(arrivals);
    if (delivery == NULL || message == NULL || message->format != 0)
        return Py_NewRef(Py_None);
    bool aborted = pn.delivery_aborted(delivery), settled = pn.delivery_settled(delivery), more = pn.delivery_partial(delivery);
    if (!aborted && !take_in(arrivals, delivery, message))
        return NULL;
    if (more && message->size == 0)
        return Py_NewRef(Py_None);
    if (message->head != NULL && !join(message))
        return NULL;
    PyObject *part = aborted ? PyBytes_FromStringAndSize("", 0) : take_bytes(message);
    if (part == NULL)
        return NULL;
    if (!more) {
        remove_first(arrivals);
        if (settled || aborted)
            pn.delivery_settle(delivery); /* this also advances; an end lets go of an aborted one without an outcome */
        else
            pn.link_advance(arrivals->link);
    }
    return Py_BuildValue("NNNNN", PyLong_FromVoidPtr(delivery), part, PyBool_FromLong(settled), PyBool_FromLong(more),
                         PyBool_FromLong(aborted));
}

static PyObject *current(PyObject *self, PyObject *Py_UNUSED(none))
{
    const struct arrivals *arrivals = (struct arrivals *)self;
    const struct message *message = pn.link_current(arrivals->link) == NULL ? NULL : first_of(arrivals);
    if (message == NULL)
        return Py_BuildValue("nI", (Py_ssize_t)0, 0u);
    Py_ssize_t head = message->head == NULL ? 0 : PyBytes_Size(message->head);
    return Py_BuildValue("nI", (Py_ssize_t)message->size + head, message->format);
}

static PyObject *read_on(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct arrivals *arrivals = (struct arrivals *)self;
    struct message *message = first_of(arrivals);
    void *delivery = pn.link_current(arrivals->link);
    if (message != NULL && delivery != NULL && !pn.delivery_aborted(delivery)) {
        if (!take_in(arrivals, delivery, message))
            return NULL;
        if (message->unwanted || message->format != 0)
            clear_message(message);
    }
    return Py_NewRef(Py_None);
}

static PyObject *close_arrivals(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct arrivals *arrivals = (struct arrivals *)self;
    clear_queue(arrivals);
    arrivals->closed = true;
    return Py_NewRef(Py_None);
}

static PyObject *drop(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct message *message = first_of((struct arrivals *)self);
    if (message != NULL) {
        clear_message(message);
        message->unwanted = true;
    }
    return Py_NewRef(Py_None);
}

static PyObject *remove_current(PyObject *self, PyObject *Py_UNUSED(none))
{
    remove_first((struct arrivals *)self);
    return Py_NewRef(Py_None);
}
