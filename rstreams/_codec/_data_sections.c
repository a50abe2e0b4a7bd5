/* Data sections of a message, many at a time: see data_sections.py, which has the same in Python.

   Nothing is kept between calls, and nothing here calls back into Python but to free what it has made. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

enum { HEAD = 8 }; /* 0x00 described, 0x53 0x75 by the small ulong 0x75, 0xb0 binary, and its length in 4 bytes (3.2.6) */
static const char DATA[4] = "\0Su\xb0";

PyDoc_STRVAR(join_doc, "join(start, items): return `start` with a Data section for each item of a list behind it.");

static PyObject *join(PyObject *Py_UNUSED(module), PyObject *args)
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
        if ((uint64_t)length > UINT32_MAX || length > PY_SSIZE_T_MAX - HEAD - total)
            return PyErr_Format(PyExc_OverflowError, "an item of %zd bytes is too large", length);
        total += HEAD + length;
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
        const char told[4] = {(char)(length >> 24), (char)(length >> 16), (char)(length >> 8), (char)length};
        memcpy(to, DATA, 4);
        memcpy(to + 4, told, 4);
        memcpy(to + HEAD, PyBytes_AsString(item), (size_t)length);
        to += HEAD + length;
    }
    return joined;
}

PyDoc_STRVAR(split_doc, "split(message, at): return what is in the Data sections from `at` to the end, as a list; None if "
                        "that is anything but whole sections of this form.");

static PyObject *split(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *message;
    Py_ssize_t size, at;
    if (!PyArg_ParseTuple(args, "y#n:split", &message, &size, &at))
        return NULL;
    PyObject *items = PyList_New(0);
    if (items == NULL)
        return NULL;
    while (at < size) {
        if (at < 0 || size - at < HEAD || memcmp(message + at, DATA, 4) != 0)
            goto other;
        const unsigned char *told = (const unsigned char *)message + at + 4;
        uint32_t length = (uint32_t)told[0] << 24 | (uint32_t)told[1] << 16 | (uint32_t)told[2] << 8 | told[3];
        at += HEAD;
        if (length > (uint64_t)(size - at))
            goto other;
        PyObject *item = PyBytes_FromStringAndSize(message + at, (Py_ssize_t)length);
        if (item == NULL || PyList_Append(items, item) < 0) {
            Py_XDECREF(item);
            Py_DECREF(items);
            return NULL;
        }
        Py_DECREF(item);
        at += length;
    }
    return items;
other:
    Py_DECREF(items);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"join", join, METH_VARARGS, join_doc},
    {"split", split, METH_VARARGS, split_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

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
