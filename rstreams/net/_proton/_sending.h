/* Sending messages: those of one frame in runs, larger ones and those that come in parts frame by frame.
   Before this header: _beside.h. */

/* Take the low 32 bits of a number as a tag; false for an error. */
static bool take_tag(PyObject *number, char *tag)
{
    unsigned long bits = PyLong_AsUnsignedLongMask(number);
    if (bits == (unsigned long)-1 && PyErr_Occurred())
        return false;
    for (int i = 0; i < TAG; i++)
        tag[i] = (char)(bits >> 8 * (TAG - 1 - i));
    return true;
}

/* Begin a delivery; NULL without memory: a message that was put for it is let go with its link. */
static void *begin_delivery(void *link, bytes_t tag)
{
    void *delivery = pn.delivery(link, tag); /* copies the tag */
    if (delivery == NULL)
        PyErr_NoMemory();
    return delivery;
}

static void end_delivery(void *link, void *delivery, bool settled)
{
    pn.link_advance(link);
    if (settled)
        pn.delivery_settle(delivery);
}

static PyObject *send_run(PyObject *self, PyObject *args)
{
    struct beside *beside = (struct beside *)self;
    void *link;
    PyObject *numbers, *messages, *number = NULL;
    int settled, are_bodies;
    Py_ssize_t most, done = 0;
    if (!PyArg_ParseTuple(args, "O&OO!ppn:send", take_address, &link, &numbers, &PyList_Type, &messages, &settled, &are_bodies,
                          &most))
        return NULL;
    Py_ssize_t count = PyList_Size(messages), numbered = PyObject_Size(numbers);
    if (numbered >= 0 && numbered != count)
        PyErr_SetString(PyExc_ValueError, "as many numbers as messages are needed");
    if (numbered != count)
        return NULL;
    int64_t account = account_of(beside, pn.link_session(link));
    PyObject *addresses = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(void *));
    PyObject *each = NULL, *sent = as_deliveries(addresses); /* made first: without memory for it no delivery begins */
    if (sent == NULL || (each = account < 0 ? PyErr_NoMemory() : PyObject_GetIter(numbers)) == NULL)
        goto failed;
    void **to = (void **)PyBytes_AsString(addresses); /* aligned: behind the head of a bytes object */
    for (; done < count; done++) {
        PyObject *message = PyList_GetItem(messages, done); /* borrowed */
        char *start, tag[TAG], placeholder[PLACEHOLDER];
        Py_ssize_t size;
        if (message == NULL || PyBytes_AsStringAndSize(message, &start, &size) < 0)
            goto failed;
        if (size > most)
            break;
        if ((number = PyIter_Next(each)) == NULL && !PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "there are fewer numbers than their size says");
        if (number == NULL || !take_tag(number, tag))
            goto failed;
        struct slot *slot = put(beside, link, (uint32_t)account, message, 0, (size_t)size, placeholder);
        if (slot == NULL || (to[done] = begin_delivery(link, (bytes_t){0, NULL})) == NULL)
            goto failed;
        memcpy(slot->tag, tag, TAG);
        slot->is_body = are_bodies;
        pn.link_send(link, placeholder, PLACEHOLDER);
        end_delivery(link, to[done], settled);
        Py_CLEAR(number);
    }
    Py_DECREF(each);
    if (done == count)
        return sent;
    PyObject *first = PySequence_GetSlice(sent, 0, done);
    Py_DECREF(sent);
    return first;
failed:
    Py_XDECREF(number);
    Py_XDECREF(each);
    Py_XDECREF(sent);
    return NULL;
}

static PyObject *begin(PyObject *Py_UNUSED(self), PyObject *args)
{
    void *link;
    char tag[TAG];
    PyObject *number;
    if (!PyArg_ParseTuple(args, "O&O:begin", take_address, &link, &number) || !take_tag(number, tag))
        return NULL;
    void *delivery = begin_delivery(link, (bytes_t){TAG, tag});
    return delivery == NULL ? NULL : as_deliveries(PyBytes_FromStringAndSize((const char *)&delivery, sizeof(delivery)));
}

/* The engine writes all bytes that it has of a delivery into one frame, if they fit. Therefore it gets a placeholder only
   when it has written the one before. */
static PyObject *send_part(PyObject *self, PyObject *args)
{
    struct beside *beside = (struct beside *)self;
    void *link, *delivery;
    PyObject *part;
    Py_ssize_t begin_at, most, room;
    int is_body, more, settled;
    if (!PyArg_ParseTuple(args, "O&Snpppnn:send_part", take_address, &link, &part, &begin_at, &is_body, &more, &settled, &most,
                          &room))
        return NULL;
    size_t at = (size_t)begin_at, end = (size_t)PyBytes_Size(part), until = at + (size_t)room;
    if (begin_at < 0 || at > end || most <= BODY_HEAD || room < 0 || (delivery = pn.link_current(link)) == NULL)
        return PyErr_Format(PyExc_ValueError, "there is no such part, or no delivery for it");
    if (is_body && !is_body_size((Py_ssize_t)end))
        return PyErr_Format(PyExc_OverflowError, "a body of %zu bytes is too large", end);
    pn.transport_pending(beside->transport); /* which has the engine write */
    while ((at < end || !more) && at < until && pn.delivery_pending(delivery) == 0) {
        char placeholder[PLACEHOLDER];
        bool has_head = is_body && at == 0;
        size_t size = (size_t)most - (has_head ? BODY_HEAD : 0); /* so that all frames but the last have the same size */
        size = size < end - at ? size : end - at;
        bool is_last = at + size == end && !more;
        struct slot *slot = put(beside, is_last ? link : delivery, NO_ACCOUNT, part, at, at + size, placeholder);
        if (slot == NULL)
            return NULL;
        slot->is_body = has_head;
        pn.link_send(link, placeholder, PLACEHOLDER);
        at += size;
        if (is_last)
            end_delivery(link, delivery, settled);
        pn.transport_pending(beside->transport);
        if (at == end)
            return PyLong_FromLong(-1);
    }
    return PyLong_FromSsize_t(at < end || !more ? (Py_ssize_t)at : -1);
}
