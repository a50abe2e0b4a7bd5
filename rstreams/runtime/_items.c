/* The items of an open stream for `async for`, in C: see items.py.

   A coroutine of Python for each item costs more than the item. Here `__anext__` returns an awaitable that takes the
   item when it is awaited, and that is used again for the next item. It behaves like a coroutine: it has `send`,
   `throw` and `close`, takes nothing before it is awaited, and is awaited once. If the batch is empty, it goes on as the
   coroutine of `_first_of_next_batch`. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    PyObject *batch;     /* an iterator */
    PyObject *sink;      /* has `untold` and `tell` */
    PyObject *awaitable; /* the one returned last */
    PyObject *untold;    /* the name of the attribute */
} items_t;

typedef struct {
    PyObject_HEAD
    PyObject *items;     /* NULL when it has ended */
    PyObject *coroutine; /* of `_first_of_next_batch`, once it is needed */
} next_t;

/* Free the memory of an object whose references are gone. */
static void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* ---------------------------------------------------------------------------------------------------------- the next item */

static int next_traverse(PyObject *self, visitproc visit, void *arg)
{
    next_t *next = (next_t *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(next->items);
    Py_VISIT(next->coroutine);
    return 0;
}

static int next_clear(PyObject *self)
{
    next_t *next = (next_t *)self;
    Py_CLEAR(next->items);
    Py_CLEAR(next->coroutine);
    return 0;
}

static void next_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    next_clear(self);
    free_object(self);
}

/* Return the next item of the batch; NULL without an error if the batch is empty. */
static PyObject *take(items_t *items)
{
    if (items->batch == NULL || items->sink == NULL) {
        PyErr_SetString(PyExc_AttributeError, "the items have no batch or no sink");
        return NULL;
    }
    PyObject *item = PyIter_Next(items->batch);
    if (item == NULL)
        return NULL;
    PyObject *untold = PyObject_GetAttr(items->sink, items->untold);
    int tell = untold == NULL ? -1 : PyObject_IsTrue(untold);
    Py_XDECREF(untold);
    PyObject *told = tell > 0 ? PyObject_CallMethod(items->sink, "tell", NULL) : NULL;
    if (tell < 0 || (tell > 0 && told == NULL))
        Py_CLEAR(item);
    Py_XDECREF(told);
    return item;
}

static bool go_on_as_coroutine(next_t *next)
{
    next->coroutine = PyObject_CallMethod(next->items, "_first_of_next_batch", NULL);
    return next->coroutine != NULL;
}

static bool may_be_awaited(next_t *next)
{
    if (next->items != NULL)
        return true;
    PyErr_SetString(PyExc_RuntimeError, "cannot reuse already awaited __anext__()");
    return false;
}

static PySendResult next_send(PyObject *self, PyObject *value, PyObject **result)
{
    next_t *next = (next_t *)self;
    *result = NULL;
    if (!may_be_awaited(next))
        return PYGEN_ERROR;
    if (next->coroutine == NULL) {
        if (value != Py_None) {
            PyErr_SetString(PyExc_TypeError, "can't send non-None value to a just-started coroutine");
            return PYGEN_ERROR;
        }
        *result = take((items_t *)next->items);
        if (*result != NULL || PyErr_Occurred()) {
            next_clear(self);
            return *result == NULL ? PYGEN_ERROR : PYGEN_RETURN;
        }
        if (!go_on_as_coroutine(next)) {
            next_clear(self);
            return PYGEN_ERROR;
        }
    }
    PyObject *coroutine = next->coroutine;
    Py_INCREF(coroutine);
    PySendResult sent = PyIter_Send(coroutine, value, result);
    Py_DECREF(coroutine);
    if (sent != PYGEN_NEXT)
        next_clear(self);
    return sent;
}

/* Raise StopIteration with a value; a tuple or an exception would be taken for the arguments of the error itself. */
static void stop_with(PyObject *value)
{
    PyObject *stop = PyObject_CallFunctionObjArgs(PyExc_StopIteration, value, NULL);
    if (stop != NULL) {
        PyErr_SetObject(PyExc_StopIteration, stop);
        Py_DECREF(stop);
    }
}

static PyObject *next_method_send(PyObject *self, PyObject *value)
{
    PyObject *result;
    PySendResult sent = next_send(self, value, &result);
    if (sent != PYGEN_RETURN)
        return result;
    stop_with(result);
    Py_DECREF(result);
    return NULL;
}

static PyObject *next_iternext(PyObject *self)
{
    return next_method_send(self, Py_None);
}

static PyObject *next_throw(PyObject *self, PyObject *args)
{
    next_t *next = (next_t *)self;
    if (!may_be_awaited(next))
        return NULL;
    if (next->coroutine == NULL && !go_on_as_coroutine(next)) /* an error thrown into it before it began runs nothing */
        return NULL;
    PyObject *throw = PyObject_GetAttrString(next->coroutine, "throw");
    PyObject *result = throw == NULL ? NULL : PyObject_Call(throw, args, NULL);
    Py_XDECREF(throw);
    if (result == NULL)
        next_clear(self);
    return result;
}

static PyObject *next_close(PyObject *self, PyObject *Py_UNUSED(none))
{
    next_t *next = (next_t *)self;
    if (next->coroutine != NULL) {
        PyObject *closed = PyObject_CallMethod(next->coroutine, "close", NULL);
        if (closed == NULL)
            return NULL;
        Py_DECREF(closed);
    }
    next_clear(self);
    return Py_NewRef(Py_None);
}

static PyObject *next_await(PyObject *self)
{
    return Py_NewRef(self);
}

/* Return an attribute of the coroutine, for tools that show where a task waits. */
static PyObject *next_of_coroutine(PyObject *self, void *name)
{
    next_t *next = (next_t *)self;
    if (next->coroutine != NULL)
        return PyObject_GetAttrString(next->coroutine, (const char *)name);
    PyErr_SetString(PyExc_AttributeError, (const char *)name);
    return NULL;
}

static PyMethodDef next_methods[] = {
    {"send", next_method_send, METH_O, "As `send` of a coroutine."},
    {"throw", next_throw, METH_VARARGS, "As `throw` of a coroutine."},
    {"close", next_close, METH_NOARGS, "As `close` of a coroutine."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef next_attributes[] = {
    {"cr_frame", next_of_coroutine, NULL, "Where it waits.", "cr_frame"},
    {"cr_await", next_of_coroutine, NULL, "What it waits for.", "cr_await"},
    {"cr_running", next_of_coroutine, NULL, "Whether it runs.", "cr_running"},
    {"cr_code", next_of_coroutine, NULL, "The code of its coroutine.", "cr_code"},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot next_slots[] = {
    {Py_tp_doc, "The next item of an open stream, once it is awaited."},
    {Py_tp_traverse, next_traverse},
    {Py_tp_clear, next_clear},
    {Py_tp_dealloc, next_dealloc},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, next_iternext},
    {Py_tp_methods, next_methods},
    {Py_tp_getset, next_attributes},
    {Py_am_await, next_await},
    {Py_am_send, next_send},
    {0, NULL},
};

static PyType_Spec next_spec = {
    .name = "rstreams.runtime._items.NextItem",
    .basicsize = sizeof(next_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = next_slots,
};

/* -------------------------------------------------------------------------------------------------------------- the items */

static int items_traverse(PyObject *self, visitproc visit, void *arg)
{
    items_t *items = (items_t *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(items->batch);
    Py_VISIT(items->sink);
    Py_VISIT(items->awaitable);
    return 0;
}

static int items_clear(PyObject *self)
{
    items_t *items = (items_t *)self;
    Py_CLEAR(items->batch);
    Py_CLEAR(items->sink);
    Py_CLEAR(items->awaitable);
    Py_CLEAR(items->untold);
    return 0;
}

static void items_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    items_clear(self);
    free_object(self);
}

static PyObject *items_anext(PyObject *self)
{
    items_t *items = (items_t *)self;
    if (items->untold == NULL && (items->untold = PyUnicode_InternFromString("untold")) == NULL)
        return NULL;
    if (items->awaitable == NULL || Py_REFCNT(items->awaitable) > 1) { /* somebody else has it still */
        PyObject *made = PyObject_CallMethod(self, "_awaitable", NULL);
        if (made == NULL)
            return NULL;
        PyObject *before = items->awaitable;
        items->awaitable = made;
        Py_XDECREF(before);
    }
    next_clear(items->awaitable);
    ((next_t *)items->awaitable)->items = Py_NewRef(self);
    return Py_NewRef(items->awaitable);
}

static PyObject *items_aiter(PyObject *self)
{
    return Py_NewRef(self);
}

static PyMemberDef items_members[] = {
    {"_batch", T_OBJECT_EX, offsetof(items_t, batch), 0, "An iterator over the items that are there."},
    {"_sink", T_OBJECT_EX, offsetof(items_t, sink), 0, "Is told when an item is given out, if it wants that."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot items_slots[] = {
    {Py_tp_doc, "The items of an open stream."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_traverse, items_traverse},
    {Py_tp_clear, items_clear},
    {Py_tp_dealloc, items_dealloc},
    {Py_tp_members, items_members},
    {Py_am_aiter, items_aiter},
    {Py_am_anext, items_anext},
    {0, NULL},
};

static PyType_Spec items_spec = {
    .name = "rstreams.runtime._items.Items",
    .basicsize = sizeof(items_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = items_slots,
};

/* items.py compares this number; it changes with the attributes and methods that the classes share. */
enum { INTERFACE = 1 };

static int add_types(PyObject *module)
{
    PyObject *next = PyType_FromModuleAndSpec(module, &next_spec, NULL);
    PyObject *items = PyType_FromModuleAndSpec(module, &items_spec, NULL);
    int failed = next == NULL || items == NULL || PyObject_SetAttrString(items, "_awaitable", next) < 0 ||
                 PyModule_AddObjectRef(module, "Items", items) < 0 ||
                 PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0;
    Py_XDECREF(next);
    Py_XDECREF(items);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, add_types},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "rstreams.runtime._items",
    .m_doc = "The items of an open stream in C: see items.py.",
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__items(void)
{
    return PyModuleDef_Init(&definition);
}
