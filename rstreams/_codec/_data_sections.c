/* Data sections of a message, many at a time: see data_sections.py.

   No state is kept between calls. The functions here call back into Python only to free objects that they have made. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "_body_head.h"
#include "_sections.h"

enum { NOTES_HEAD = 5, ANNOTATIONS = 0x72 };
static const char NOTES[4] = "\0Sr\xc1"; /* message annotations, whose length has one byte (3.2.3) */

/* -------------------------------------------------------------------------------------------------------- measuring */

PyDoc_STRVAR(total_bytes_doc, "total_bytes(items): return how many bytes the items of a list of bytes have together.");

static PyObject *total_bytes(PyObject *Py_UNUSED(module), PyObject *items)
{
    if (!PyList_Check(items))
        return PyErr_Format(PyExc_TypeError, "a list is needed");
    Py_ssize_t total = 0, count = PyList_Size(items);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyList_GetItem(items, i); /* borrowed */
        if (!PyBytes_Check(item))
            return PyErr_Format(PyExc_TypeError, "an item must be bytes");
        total += PyBytes_Size(item);
    }
    return PyLong_FromSsize_t(total);
}

PyDoc_STRVAR(largest_body_doc, "largest_body(items): return how many bytes the largest item of a list has, 0 if there is "
                               "none; -1 if one of them is anything but bytes.");

static PyObject *largest_body(PyObject *Py_UNUSED(module), PyObject *items)
{
    if (!PyList_Check(items))
        return PyErr_Format(PyExc_TypeError, "a list is needed");
    Py_ssize_t largest = 0, count = PyList_Size(items);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyList_GetItem(items, i); /* borrowed */
        if (!PyBytes_CheckExact(item))
            return PyLong_FromLong(-1);
        Py_ssize_t length = PyBytes_Size(item);
        if (length > largest)
            largest = length;
    }
    return PyLong_FromSsize_t(largest);
}

/* ---------------------------------------------------------------------------------------------------------- joining */

/* Return `start` with a Data section for each item behind it; for its message, if the items are `bodies`. */
static PyObject *join_any(PyObject *args, int bodies)
{
    const char *start;
    Py_ssize_t size;
    PyObject *items;
    if (!PyArg_ParseTuple(args, "y#O!:join", &start, &size, &PyList_Type, &items))
        return NULL;
    Py_ssize_t count = PyList_Size(items), total = size;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyList_GetItem(items, i); /* borrowed */
        if (!PyBytes_Check(item))
            return PyErr_Format(PyExc_TypeError, "an item must be bytes");
        Py_ssize_t length = PyBytes_Size(item);
        if (!is_body_size(length) || length > PY_SSIZE_T_MAX - 2 * BODY_HEAD - total)
            return PyErr_Format(PyExc_OverflowError, "an item of %zd bytes is too large", length);
        total += BODY_HEAD + length + (bodies ? size_of_head(length) : 0);
    }
    PyObject *joined = PyBytes_FromStringAndSize(NULL, total);
    if (joined == NULL)
        return NULL;
    char *to = PyBytes_AsString(joined);
    memcpy(to, start, (size_t)size);
    to += size;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyList_GetItem(items, i);
        Py_ssize_t length = PyBytes_Size(item);
        to = write_head(to, length + (bodies ? size_of_head(length) : 0));
        if (bodies)
            to = write_body_head(to, length);
        memcpy(to, PyBytes_AsString(item), (size_t)length);
        to += length;
    }
    return joined;
}

PyDoc_STRVAR(join_doc, "join(start, items): return `start` with a Data section for each item of a list behind it.");

static PyObject *join(PyObject *Py_UNUSED(module), PyObject *args)
{
    return join_any(args, 0);
}

PyDoc_STRVAR(join_bodies_doc, "join_bodies(start, bodies): return `start` with a Data section behind it for each message "
                              "that has one of a list of bytes as its body.");

static PyObject *join_bodies(PyObject *Py_UNUSED(module), PyObject *args)
{
    return join_any(args, 1);
}

/* -------------------------------------------------------------------------------------------------------- numbering */

PyDoc_STRVAR(numbered_doc, "numbered(start, messages, numbers): return each message of a list with `start` and its number in "
                           "8 bytes in front; None if one of them begins with a header or with annotations.");

static PyObject *number_one(const char *start, Py_ssize_t size, const char *message, Py_ssize_t length,
                            unsigned long long value)
{
    if (length > PY_SSIZE_T_MAX - 8 - size)
        return PyErr_NoMemory();
    PyObject *made = PyBytes_FromStringAndSize(NULL, size + 8 + length);
    if (made == NULL)
        return NULL;
    char *to = PyBytes_AsString(made);
    memcpy(to, start, (size_t)size);
    to += size;
    for (int shift = 56; shift >= 0; shift -= 8)
        *to++ = (char)(value >> shift);
    memcpy(to, message, (size_t)length);
    return made;
}

static bool may_be_numbered(const char *message, Py_ssize_t length)
{
    return length > 2 && (unsigned char)message[2] > ANNOTATIONS;
}

static PyObject *numbered(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *start;
    Py_ssize_t size;
    PyObject *messages, *numbers, *number;
    if (!PyArg_ParseTuple(args, "y#O!O:numbered", &start, &size, &PyList_Type, &messages, &numbers))
        return NULL;
    Py_ssize_t count = PyList_Size(messages), told = PyObject_Size(numbers);
    if (told >= 0 && told != count)
        PyErr_SetString(PyExc_ValueError, "as many numbers as messages are needed");
    PyObject *each = told == count ? PyObject_GetIter(numbers) : NULL;
    PyObject *made = each == NULL ? NULL : PyList_New(0);
    for (Py_ssize_t i = 0; made != NULL && i < count && (number = PyIter_Next(each)) != NULL; i++) {
        PyObject *message = PyList_GetItem(messages, i), *item = NULL; /* borrowed */
        if (!PyBytes_Check(message))
            PyErr_SetString(PyExc_TypeError, "a message must be bytes");
        else if (may_be_numbered(PyBytes_AsString(message), PyBytes_Size(message))) {
            unsigned long long value = PyLong_AsUnsignedLongLong(number);
            if (!PyErr_Occurred())
                item = number_one(start, size, PyBytes_AsString(message), PyBytes_Size(message), value);
        }
        if (item == NULL || PyList_Append(made, item) < 0)
            Py_CLEAR(made);
        Py_XDECREF(item);
        Py_DECREF(number);
    }
    Py_XDECREF(each);
    if (PyErr_Occurred())
        Py_CLEAR(made);
    else if (made == NULL)
        return Py_NewRef(Py_None);
    return made;
}

PyDoc_STRVAR(cut_numbered_doc, "cut_numbered(start, stored, count, first): return the messages of a stored run, each with `start` "
                               "and its number in 8 bytes in front, from `first` on; None if one of them begins with a header "
                               "or with annotations.");

/* The messages of a stored run: `count` sizes of 4 bytes each, the low byte first, then the messages. */
static PyObject *cut_numbered(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *start, *stored;
    Py_ssize_t size, total, count;
    unsigned long long first;
    if (!PyArg_ParseTuple(args, "y#y#nK:cut_numbered", &start, &size, &stored, &total, &count, &first))
        return NULL;
    if (count < 0 || count > total / 4)
        return PyErr_Format(PyExc_ValueError, "%zd bytes do not have %zd sizes", total, count);
    PyObject *made = PyList_New(count);
    Py_ssize_t at = 4 * count;
    for (Py_ssize_t i = 0; made != NULL && i < count; i++) {
        const unsigned char *told = (const unsigned char *)stored + 4 * i;
        uint32_t length = told[0] | (uint32_t)told[1] << 8 | (uint32_t)told[2] << 16 | (uint32_t)told[3] << 24;
        PyObject *item = NULL;
        if (length > total - at)
            PyErr_SetString(PyExc_ValueError, "a stored run is shorter than its sizes say");
        else if (may_be_numbered(stored + at, length))
            item = number_one(start, size, stored + at, length, first + (unsigned long long)i);
        if (item == NULL || PyList_SetItem(made, i, item) < 0) /* takes the reference */
            Py_CLEAR(made);
        at += length;
    }
    if (made == NULL && !PyErr_Occurred())
        return Py_NewRef(Py_None);
    return made;
}

/* -------------------------------------------------------------------------------------------------------- splitting */

/* Return where the body begins in a message that has nothing else but annotations; -1 for any other message. */
static Py_ssize_t body_of(const char *message, Py_ssize_t size)
{
    Py_ssize_t at = 0;
    if (size >= NOTES_HEAD && memcmp(message, NOTES, 4) == 0)
        at = NOTES_HEAD + (unsigned char)message[4];
    Py_ssize_t left = size - at;
    const char *head = message + (left < 0 ? 0 : at);
    if (left >= BODY_HEAD && memcmp(head, DATA, 4) == 0 && read_length(head + 4) == (uint64_t)(left - BODY_HEAD))
        return at + BODY_HEAD;
    if (left >= SHORT_BODY_HEAD && memcmp(head, SHORT_DATA, 4) == 0 && (unsigned char)head[4] == left - SHORT_BODY_HEAD)
        return at + SHORT_BODY_HEAD;
    return -1;
}

/* Return how many sections there are from `at` to the end; -1 if that is anything but whole sections. */
static Py_ssize_t count_from(const char *message, Py_ssize_t size, Py_ssize_t at)
{
    Py_ssize_t sections = 0;
    while (at < size) {
        Py_ssize_t length = enter_section(message, size, &at);
        if (length < 0)
            return -1;
        at += length;
        sections++;
    }
    return at == size ? sections : -1;
}

PyDoc_STRVAR(pack_sizes_doc, "pack_sizes(messages, start): return how many items each message of a sequence of bytes has: None "
                             "for one that does not begin with `start`, and -1 if anything but that many whole sections "
                             "follows.");

/* Behind `start` there are 4 bytes with the number of the sections, and then the sections. */
static PyObject *pack_sizes(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *start;
    Py_ssize_t size;
    PyObject *messages;
    if (!PyArg_ParseTuple(args, "Oy#:pack_sizes", &messages, &start, &size))
        return NULL;
    const Py_ssize_t many = PySequence_Size(messages);
    PyObject *sizes = many < 0 ? NULL : PyList_New(many);
    for (Py_ssize_t i = 0; sizes != NULL && i < many; i++) {
        PyObject *message = PySequence_GetItem(messages, i);
        PyObject *told = NULL;
        if (message != NULL && PyBytes_Check(message)) {
            const char *bytes = PyBytes_AsString(message);
            const Py_ssize_t length = PyBytes_Size(message);
            if (length < size || memcmp(bytes, start, (size_t)size) != 0) {
                told = Py_NewRef(Py_None);
            } else {
                const Py_ssize_t sections = length < size + 4 ? -1 : count_from(bytes, length, size + 4);
                told = PyLong_FromSsize_t(sections >= 0 && sections == read_length(bytes + size) ? sections : -1);
            }
        } else if (message != NULL) {
            PyErr_Format(PyExc_TypeError, "a message must be bytes");
        }
        Py_XDECREF(message);
        if (told == NULL || PyList_SetItem(sizes, i, told) < 0)
            Py_CLEAR(sizes);
    }
    return sizes;
}

PyDoc_STRVAR(last_doc, "last(message, at): return what is in the last of the Data sections from `at` to the end; None if there "
                       "is none, or anything but whole sections of this form.");

static PyObject *last(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *message;
    Py_ssize_t size, at, length = -1;
    if (!PyArg_ParseTuple(args, "y#n:last", &message, &size, &at))
        return NULL;
    while (at < size && (length = enter_section(message, size, &at)) >= 0)
        at += length;
    if (length < 0 || at != size)
        return Py_NewRef(Py_None);
    return PyBytes_FromStringAndSize(message + at - length, length);
}

PyDoc_STRVAR(split_bodies_doc, "split_bodies(message, at): return the bodies of the messages in the Data sections from `at` "
                               "to the end; None if there is anything else than messages of bytes.");

static PyObject *split_bodies(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *message;
    Py_ssize_t size, at;
    if (!PyArg_ParseTuple(args, "y#n:split_bodies", &message, &size, &at))
        return NULL;
    PyObject *bodies = PyList_New(0);
    if (bodies == NULL)
        return NULL;
    while (at < size) {
        Py_ssize_t length = enter_section(message, size, &at), head = 0;
        if (length < 0 || (head = body_of(message + at, length)) < 0) {
            Py_DECREF(bodies);
            return Py_NewRef(Py_None);
        }
        PyObject *body = PyBytes_FromStringAndSize(message + at + head, length - head);
        if (body == NULL || PyList_Append(bodies, body) < 0) {
            Py_XDECREF(body);
            Py_DECREF(bodies);
            return NULL;
        }
        Py_DECREF(body);
        at += length;
    }
    if (at != size) {
        Py_DECREF(bodies);
        return Py_NewRef(Py_None);
    }
    return bodies;
}

/* -------------------------------------------------------------------------------------------------------- iterating */

static PyObject *next_of(PyObject *self)
{
    Py_ssize_t length;
    const char *content = next_section((Sections *)self, &length);
    return content == NULL ? NULL : PyBytes_FromStringAndSize(content, length);
}

static PyObject *length_hint(PyObject *self, PyObject *Py_UNUSED(none))
{
    return PyLong_FromSsize_t(((Sections *)self)->left);
}

static void sections_free(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(((Sections *)object)->messages);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(object);
    Py_DECREF(type);
}

static PyMethodDef sections_methods[] = {
    {"__length_hint__", length_hint, METH_NOARGS, "Return how many sections are left."},
    {NULL, NULL, 0, NULL},
};

static PyObject *sections_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named))
{
    PyObject *messages;
    Py_ssize_t at, count;
    if (!PyArg_ParseTuple(args, "O!nn:Sections", &PyTuple_Type, &messages, &at, &count))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_Size(messages); i++)
        if (!PyBytes_Check(PyTuple_GetItem(messages, i)))
            return PyErr_Format(PyExc_TypeError, "a message must be bytes");
    allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Sections *self = (Sections *)make(type, 0);
    if (self == NULL)
        return NULL;
    self->messages = Py_NewRef(messages);
    self->begin = self->at = at;
    self->left = count;
    return (PyObject *)self;
}

static PyType_Slot sections_slots[] = {
    {Py_tp_new, sections_new},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, next_of},
    {Py_tp_methods, sections_methods},
    {Py_tp_dealloc, sections_free},
    {Py_tp_doc, "Sections(messages, at, count): the contents of the Data sections from `at` on of each message of a tuple, "
                "which are `count`."},
    {0, NULL},
};

static PyType_Spec sections_spec = {
    .name = "rstreams._codec._data_sections.Sections",
    .basicsize = sizeof(Sections),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = sections_slots,
};

/* ----------------------------------------------------------------------------------------------------------- module */

static PyMethodDef methods[] = {
    {"join", join, METH_VARARGS, join_doc},
    {"join_bodies", join_bodies, METH_VARARGS, join_bodies_doc},
    {"largest_body", largest_body, METH_O, largest_body_doc},
    {"last", last, METH_VARARGS, last_doc},
    {"cut_numbered", cut_numbered, METH_VARARGS, cut_numbered_doc},
    {"pack_sizes", pack_sizes, METH_VARARGS, pack_sizes_doc},
    {"numbered", numbered, METH_VARARGS, numbered_doc},
    {"split_bodies", split_bodies, METH_VARARGS, split_bodies_doc},
    {"total_bytes", total_bytes, METH_O, total_bytes_doc},
    {NULL, NULL, 0, NULL},
};

/* data_sections.py compares this number; it changes with the functions and their meanings. */
enum { INTERFACE = 5 };

static int fill_module(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &sections_spec, NULL);
    const int failed = type == NULL || PyModule_AddObjectRef(module, "Sections", type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, fill_module},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "rstreams._codec._data_sections",
    .m_doc = "Data sections in C: see data_sections.py.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__data_sections(void)
{
    return PyModuleDef_Init(&definition);
}
