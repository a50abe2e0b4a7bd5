/* Sending a run of messages. Before this header: _beside.h. */

/* What the messages of a run have in common. */
struct run {
    void *link;
    bool settled, are_bodies;
    struct beside *beside;
    int64_t account; /* of the link's session, for messages that go beside the engine */
    Py_ssize_t most; /* the largest of these */
};

static bool send_one(const struct run *run, PyObject *number, PyObject *message, void **sent)
{
    void *link = run->link;
    char *start, placeholder[PLACEHOLDER];
    Py_ssize_t size;
    unsigned long tag = PyLong_AsUnsignedLongMask(number);
    if (tag == (unsigned long)-1 && PyErr_Occurred())
        return false;
    if (PyBytes_AsStringAndSize(message, &start, &size) < 0)
        return false;
    if (run->are_bodies && !is_body_size(size))
        return PyErr_Format(PyExc_OverflowError, "a body of %zd bytes is too large", size) != NULL;
    const char raw_tag[TAG] = {(char)(tag >> 24), (char)(tag >> 16), (char)(tag >> 8), (char)tag};
    struct slot *slot = NULL;
    if (run->most > 0 && size <= run->most)
        slot = put(run->beside, link, (uint32_t)run->account, message, placeholder);
    void *delivery = pn.delivery(link, slot != NULL ? (bytes_t){0, NULL} : (bytes_t){TAG, raw_tag}); /* copies the tag */
    if (delivery == NULL) {
        PyErr_NoMemory(); /* a message that was put beside is let go with its link */
        return false;
    }
    if (slot != NULL) {
        memcpy(slot->tag, raw_tag, TAG);
        slot->is_body = run->are_bodies;
        pn.link_send(link, placeholder, PLACEHOLDER);
    } else {
        if (run->are_bodies) {
            char head[BODY_HEAD];
            pn.link_send(link, head, (size_t)(write_body_head(head, size) - head));
        }
        pn.link_send(link, start, (size_t)size);
    }
    pn.link_advance(link);
    if (run->settled)
        pn.delivery_settle(delivery);
    *sent = delivery;
    return true;
}

static PyObject *send_run(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct run run;
    PyObject *numbers, *messages, *sent = NULL, *number = NULL, *message = NULL;
    int settled, are_bodies;
    if (!PyArg_ParseTuple(args, "O&O&OO!ppn:send", take_beside, &run.beside, take_address, &run.link, &numbers, &PyList_Type,
                          &messages, &settled, &are_bodies, &run.most) ||
        !is_bound())
        return NULL;
    run.settled = settled;
    run.are_bodies = are_bodies;
    if (run.most > 0 && (run.account = account_of(run.beside, pn.link_session(run.link))) < 0)
        run.most = 0;
    Py_ssize_t count = PyList_Size(messages), numbered = PyObject_Size(numbers);
    if (numbered >= 0 && numbered != count)
        PyErr_SetString(PyExc_ValueError, "as many numbers as messages are needed");
    if (numbered != count)
        return NULL;
    PyObject *each = PyObject_GetIter(numbers);
    if (each == NULL || (sent = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(void *))) == NULL)
        goto failed;
    void **to = (void **)PyBytes_AsString(sent); /* aligned: behind the head of a bytes object */
    for (Py_ssize_t i = 0; i < count; i++) {
        number = PyIter_Next(each);
        message = PyList_GetItem(messages, i); /* borrowed */
        if (number == NULL && !PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "there are fewer numbers than their size says");
        if (number == NULL || message == NULL || !send_one(&run, number, message, &to[i]))
            goto failed;
        Py_CLEAR(number);
    }
    Py_DECREF(each);
    return sent;
failed:
    Py_XDECREF(number);
    Py_XDECREF(each);
    Py_XDECREF(sent);
    return NULL;
}
