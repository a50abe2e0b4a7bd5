/* Fields of encoded messages as columns, and columns as encoded messages: see columns.py.

   C reads messages of simple values. It returns any other message, and any malformed one, to its caller, who decodes it
   in Python and puts its values in by `append`. C writes rows of simple values, and leaves any other row to its caller. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "_sections.h"

#include "_columns_buffers.h"
#include "_columns_reading.h"
#include "_columns_text.h"

enum Form { BYTES_FORM, TEXT_FORM, TIME_FORM, INT32_FORM, INT64_FORM, FLAG_FORM, MAP_FORM, FORMS };
enum Source { OF_HEADER, OF_PROPERTIES, OF_BODY, OF_BODY_TYPE, OF_APPLICATION_PROPERTIES, OF_ANNOTATIONS, OF_ANNOTATION,
              SOURCES };

enum { MAX_COLUMNS = 64 };
static const int64_t FIRST_MS = -62135596800000, LAST_MS = 253402300799999; /* of the years 1 and 9999 */

#include "_columns_writing.h"

typedef struct {
    int source, index, form;
    int64_t absent; /* the number or flag of a field that is absent */
    int has_absent;
    PyObject *key; /* of an annotation, in bytes */
    Vector main, keys, items;
} Column;

typedef struct {
    PyObject_HEAD
    PyObject *memory;   /* the type of buffers */
    PyObject *sections; /* the type of `Sections`, or None */
    Field header[HEADER_FIELDS], properties[PROPERTIES_FIELDS];
    Column columns[MAX_COLUMNS];
    Py_ssize_t count, rows, size;
} Columns;

#include "_columns_messages.h"

/* ------------------------------------------------------------------------------------------ rows that Python has made */

static int append_text(Vector *vector, PyObject *value, Py_ssize_t *size)
{
    const char *at;
    *size = 0;
    if (value == Py_None)
        return put_no_bytes(vector);
    if (PyBytes_Check(value)) {
        at = PyBytes_AsString(value);
        *size = PyBytes_Size(value);
    } else {
        at = PyUnicode_AsUTF8AndSize(value, size);
    }
    return at == NULL ? -1 : put_bytes(vector, at, (size_t)*size);
}

static int append_number(Column *column, PyObject *value)
{
    int64_t number = 0;
    const int valid = value != Py_None;
    if (valid && column->form == FLAG_FORM) {
        const int flag = PyObject_IsTrue(value);
        if (flag < 0)
            return -1;
        number = flag;
    } else if (valid) {
        number = PyLong_AsLongLong(value);
        if (number == -1 && PyErr_Occurred())
            return -1;
    }
    switch (column->form) {
    case INT32_FORM: return put_32(&column->main, number, valid);
    case FLAG_FORM: return put_flag(&column->main, (int)number, valid);
    default: return put_64(&column->main, number, valid);
    }
}

static int append_map(Column *column, PyObject *map, Py_ssize_t *size)
{
    PyObject *key, *value;
    Py_ssize_t at = 0, more;
    *size = 0;
    if (!PyDict_Check(map)) {
        PyErr_SetString(PyExc_TypeError, "a dict is needed");
        return -1;
    }
    while (PyDict_Next(map, &at, &key, &value)) {
        if (append_text(&column->keys, key, &more) < 0)
            return -1;
        *size += more;
        if (append_text(&column->items, value, &more) < 0)
            return -1;
        *size += more;
    }
    if (put_offset(&column->main, (size_t)column->keys.rows) < 0)
        return -1;
    return put_valid(&column->main, 1);
}

PyDoc_STRVAR(append_doc, "append(values): add a row: a list with a value for each column.");

static PyObject *append(PyObject *object, PyObject *values)
{
    Columns *self = (Columns *)object;
    if (!PyList_Check(values) || PyList_Size(values) != self->count)
        return PyErr_Format(PyExc_TypeError, "a list of %zd values is needed", self->count);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        Column *column = self->columns + i;
        PyObject *value = PyList_GetItem(values, i); /* borrowed */
        Py_ssize_t size = 8;
        int done;
        if (column->form == BYTES_FORM || column->form == TEXT_FORM)
            done = append_text(&column->main, value, &size);
        else if (column->form == MAP_FORM)
            done = append_map(column, value, &size);
        else
            done = append_number(column, value);
        if (done < 0)
            return NULL;
        self->size += size;
    }
    self->rows++;
    return Py_NewRef(Py_None);
}

/* ----------------------------------------------------------------------------------------------------------- taking */

static PyObject *part_of(PyObject *memory, Vector *vector, int form, PyObject *children)
{
    PyObject *buffers = NULL, *valid = NULL, *more = NULL, *part = NULL;
    const Py_ssize_t rows = vector->rows, nulls = vector->nulls;
    const int has_offsets = form == BYTES_FORM || form == TEXT_FORM || form == MAP_FORM;
    const int32_t none = 0;
    if (children == NULL || (has_offsets && vector->offsets.size == 0 && put(&vector->offsets, &none, sizeof none) < 0))
        goto end;
    valid = nulls ? give(memory, &vector->valid) : Py_NewRef(Py_None);
    more = valid == NULL ? NULL : give(memory, has_offsets ? &vector->offsets : &vector->values);
    if (more == NULL)
        goto end;
    if (form == BYTES_FORM || form == TEXT_FORM)
        buffers = Py_BuildValue("[OON]", valid, more, give(memory, &vector->values));
    else
        buffers = Py_BuildValue("[OO]", valid, more);
    if (buffers != NULL)
        part = Py_BuildValue("(nnOO)", rows, nulls, buffers, children);
end:
    Py_XDECREF(children);
    Py_XDECREF(buffers);
    Py_XDECREF(valid);
    Py_XDECREF(more);
    return part;
}

static void start(Columns *self)
{
    for (Py_ssize_t i = 0; i < self->count; i++) {
        drop_vector(&self->columns[i].main);
        drop_vector(&self->columns[i].keys);
        drop_vector(&self->columns[i].items);
    }
    self->rows = self->size = 0;
}

static PyObject *children_of(PyObject *memory, Column *column)
{
    if (column->form != MAP_FORM)
        return PyList_New(0);
    PyObject *keys = part_of(memory, &column->keys, TEXT_FORM, PyList_New(0));
    PyObject *items = keys == NULL ? NULL : part_of(memory, &column->items, TEXT_FORM, PyList_New(0));
    if (items == NULL) {
        Py_XDECREF(keys);
        return NULL;
    }
    return Py_BuildValue("[NN]", keys, items);
}

PyDoc_STRVAR(take_doc, "take(): return the columns, and start anew.");

static PyObject *take(PyObject *object, PyObject *Py_UNUSED(none))
{
    Columns *self = (Columns *)object;
    PyObject *parts = PyList_New(0);
    for (Py_ssize_t i = 0; parts != NULL && i < self->count; i++) {
        Column *column = self->columns + i;
        PyObject *part = part_of(self->memory, &column->main, column->form, children_of(self->memory, column));
        if (part == NULL || PyList_Append(parts, part) < 0)
            Py_CLEAR(parts);
        Py_XDECREF(part);
    }
    start(self);
    return parts;
}

/* ---------------------------------------------------------------------------------------------------- the type Columns */

static PyObject *rows_of(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSsize_t(((Columns *)self)->rows);
}

static PyObject *size_of(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSsize_t(((Columns *)self)->size);
}

static void columns_free(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Columns *self = (Columns *)object;
    start(self);
    Py_CLEAR(self->memory);
    Py_CLEAR(self->sections);
    for (Py_ssize_t i = 0; i < self->count; i++)
        Py_CLEAR(self->columns[i].key);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(object);
    Py_DECREF(type);
}

static PyMethodDef columns_methods[] = {
    {"add", add, METH_VARARGS, add_doc},
    {"append", append, METH_O, append_doc},
    {"take", take, METH_NOARGS, take_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef columns_attributes[] = {
    {"rows", rows_of, NULL, "How many rows there are.", NULL},
    {"size", size_of, NULL, "How many bytes their messages have.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot columns_slots[] = {
    {Py_tp_methods, columns_methods},
    {Py_tp_getset, columns_attributes},
    {Py_tp_dealloc, columns_free},
    {Py_tp_doc, "Columns of encoded messages; see columns_in_python.py."},
    {0, NULL},
};

static PyType_Spec columns_spec = {
    .name = "rstreams._codec._columns.FieldColumns",
    .basicsize = sizeof(Columns),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = columns_slots,
};

typedef struct {
    PyObject *memory, *columns;
} State;

PyDoc_STRVAR(make_doc, "make(header, properties, columns, sections): return a `FieldColumns`. The first two are lists of the forms "
                       "and largest numbers of fields; a column is a tuple of source, index, form and absent value, which is the key "
                       "for an annotation. The last one is the type of `Sections` that `_data_sections.c` makes, or None.");

static PyObject *make(PyObject *module, PyObject *args)
{
    State *state = PyModule_GetState(module);
    PyObject *header, *properties, *columns, *sections, *absent;
    if (!PyArg_ParseTuple(args, "O!O!O!O:make", &PyList_Type, &header, &PyList_Type, &properties, &PyList_Type, &columns,
                          &sections))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject *)state->columns, Py_tp_alloc);
    Columns *self = (Columns *)allocate((PyTypeObject *)state->columns, 0);
    if (self == NULL)
        return NULL;
    self->memory = Py_NewRef(state->memory);
    self->sections = Py_NewRef(sections);
    if (read_known(header, self->header, HEADER_FIELDS) < 0 ||
        read_known(properties, self->properties, PROPERTIES_FIELDS) < 0)
        goto fail;
    for (Py_ssize_t i = 0; i < PyList_Size(columns); i++) {
        Column *column = self->columns + i;
        if (i == MAX_COLUMNS || !PyTuple_Check(PyList_GetItem(columns, i))) {
            PyErr_Format(PyExc_ValueError, "at most %d columns, each as a tuple", MAX_COLUMNS);
            goto fail;
        }
        if (!PyArg_ParseTuple(PyList_GetItem(columns, i), "iiiO:make", &column->source, &column->index, &column->form,
                              &absent))
            goto fail;
        self->count++;
        if (column->source == OF_ANNOTATION) {
            if (column->form != INT64_FORM || !PyBytes_Check(absent)) {
                PyErr_SetString(PyExc_ValueError, "an annotation has a key in bytes, and 64 bits");
                goto fail;
            }
            column->key = Py_NewRef(absent);
            continue;
        }
        column->has_absent = absent != Py_None;
        if (column->has_absent && (column->absent = PyLong_AsLongLong(absent)) == -1 && PyErr_Occurred())
            goto fail;
        const int fields = column->source == OF_HEADER ? HEADER_FIELDS : PROPERTIES_FIELDS;
        if (column->source < 0 || column->source >= SOURCES || column->form < 0 || column->form >= FORMS ||
            column->index < 0 || column->index >= fields) {
            PyErr_SetString(PyExc_ValueError, "no such source, field or form");
            goto fail;
        }
    }
    return (PyObject *)self;
fail:
    Py_DECREF(self);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------------- module */

static int fill_module(PyObject *module)
{
    State *state = PyModule_GetState(module);
    state->memory = PyType_FromModuleAndSpec(module, &memory_spec, NULL);
    state->columns = PyType_FromModuleAndSpec(module, &columns_spec, NULL);
    if (state->memory == NULL || state->columns == NULL)
        return -1;
    return PyModule_AddIntConstant(module, "INTERFACE", 4);
}

static int visit_state(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    Py_VISIT(state->memory);
    Py_VISIT(state->columns);
    return 0;
}

static int clear_state(PyObject *module)
{
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->memory);
    Py_CLEAR(state->columns);
    return 0;
}

static PyMethodDef methods[] = {
    {"encode", encode, METH_VARARGS, encode_doc},
    {"make", make, METH_VARARGS, make_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, fill_module},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "rstreams._codec._columns",
    .m_doc = "Columns of encoded messages in C: see columns.py.",
    .m_size = sizeof(State),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = visit_state,
    .m_clear = clear_state,
};

PyMODINIT_FUNC PyInit__columns(void)
{
    return PyModuleDef_Init(&definition);
}
