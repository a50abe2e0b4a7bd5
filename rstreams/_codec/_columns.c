/* Fields of encoded messages as columns, and columns as encoded messages: see columns.py. columns_in_python.py has the
   same in Python.

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

/* --------------------------------------------------------------------------------------------- messages that C reads */

static int put_map(Column *column, const Map *map)
{
    const unsigned char *at = map->at;
    Value key, value;
    for (size_t i = 0; i < map->pairs; i++) {
        if (!read_value(&at, map->end, &key) || !read_value(&at, map->end, &value)) {
            PyErr_SetString(PyExc_SystemError, "a map has changed while it was read");
            return -1;
        }
        if (put_bytes(&column->keys, (const char *)key.at, key.size) < 0 || put_text(&column->items, &value) < 0)
            return -1;
    }
    if (put_offset(&column->main, (size_t)column->keys.rows) < 0)
        return -1;
    return put_valid(&column->main, 1);
}

static int put_field(Column *column, const Value *value)
{
    const int valid = value->kind != ABSENT || column->has_absent;
    int64_t number = value->kind == ABSENT ? column->absent : value->number;
    switch (column->form) {
    case BYTES_FORM: case TEXT_FORM:
        if (column->form == TEXT_FORM)
            return put_text(&column->main, value);
        return valid ? put_bytes(&column->main, (const char *)value->at, value->size) : put_no_bytes(&column->main);
    case TIME_FORM:
        number = number < FIRST_MS ? FIRST_MS : number > LAST_MS ? LAST_MS : number;
        return put_64(&column->main, number * 1000, valid);
    case INT32_FORM: return put_32(&column->main, number, valid);
    case INT64_FORM: return put_64(&column->main, number, valid);
    default: return put_flag(&column->main, number != 0, valid);
    }
}

static int put_body(Column *column, const Read *read)
{
    Vector *vector = &column->main;
    if (read->body_kind == NO_BODY)
        return put_no_bytes(vector);
    if (put(&vector->values, read->body, read->body_size) < 0)
        return -1;
    const unsigned char *at = read->body + read->body_size;
    while (read->body_kind == DATA_BODY && at < read->end) { /* the other sections, which have been read before */
        Value value = {0};
        at += 3;
        if (!read_value(&at, read->end, &value) || put(&vector->values, value.at, value.size) < 0)
            return -1;
    }
    if (put_offset(vector, vector->values.size) < 0)
        return -1;
    return put_valid(vector, 1);
}

/* Read the annotation of a column. Return 0 if it is no number that C reads, and 1 otherwise; then it may be absent. */
static int read_annotation(const Column *column, const Read *read, Value *value)
{
    const size_t size = (size_t)PyBytes_Size(column->key);
    const char *wanted = PyBytes_AsString(column->key);
    const unsigned char *at = read->annotations.at;
    Value key;
    for (size_t i = 0; i < read->annotations.pairs; i++) {
        if (!read_value(&at, read->annotations.end, &key) || !read_value(&at, read->annotations.end, value))
            return 0;
        if (key.size == size && memcmp(key.at, wanted, size) == 0)
            return value->kind == ABSENT || value->kind == SIGNED || (value->kind == UNSIGNED && value->number >= 0);
    }
    value->kind = ABSENT;
    return 1;
}

static int put_annotation(Column *column, const Read *read)
{
    Value value = {0};
    if (!read_annotation(column, read, &value)) {
        PyErr_SetString(PyExc_SystemError, "an annotation has changed while it was read");
        return -1;
    }
    return put_64(&column->main, value.number, value.kind != ABSENT);
}

static int put_message(Columns *self, const Read *read)
{
    static const char *const names[] = {"null", "binary", "string"};
    for (Py_ssize_t i = 0; i < self->count; i++) {
        Column *column = self->columns + i;
        int done;
        switch (column->source) {
        case OF_HEADER: done = put_field(column, read->header + column->index); break;
        case OF_PROPERTIES: done = put_field(column, read->properties + column->index); break;
        case OF_BODY: done = put_body(column, read); break;
        case OF_BODY_TYPE:
            done = put_bytes(&column->main, names[read->body_kind], strlen(names[read->body_kind]));
            break;
        case OF_APPLICATION_PROPERTIES: done = put_map(column, &read->application_properties); break;
        case OF_ANNOTATIONS: done = put_map(column, &read->annotations); break;
        default: done = put_annotation(column, read); break;
        }
        if (done < 0)
            return -1;
    }
    return 0;
}

/* Return whether C can make what is asked for of the maps: texts of their values, and numbers. */
static int maps_are_plain(const Columns *self, const Read *read)
{
    for (Py_ssize_t i = 0; i < self->count; i++) {
        const int source = self->columns[i].source;
        const Map *map = source == OF_APPLICATION_PROPERTIES ? &read->application_properties : &read->annotations;
        Value key, value = {0};
        if (source == OF_ANNOTATION && !read_annotation(self->columns + i, read, &value))
            return 0;
        if (source != OF_APPLICATION_PROPERTIES && source != OF_ANNOTATIONS)
            continue;
        const unsigned char *at = map->at;
        for (size_t pair = 0; pair < map->pairs; pair++)
            if (!read_value(&at, map->end, &key) || !read_value(&at, map->end, &value) || !has_text(&value))
                return 0;
    }
    return 1;
}

/* A message that was drawn, which is valid until it is ended. */
typedef struct {
    PyObject *object; /* NULL if there is none */
    const char *at;   /* NULL if there is no message, or only Python can read it */
    Py_ssize_t size;
} Drawn;

/* Draw the next message; return -1 with an error set. */
static int draw(Columns *self, PyObject *messages, Drawn *drawn)
{
    drawn->object = NULL;
    drawn->at = NULL;
    if ((PyObject *)Py_TYPE(messages) == self->sections) {
        drawn->at = next_section((Sections *)messages, &drawn->size);
        return 0;
    }
    drawn->object = PyIter_Next(messages);
    if (drawn->object != NULL && PyBytes_CheckExact(drawn->object)) {
        drawn->at = PyBytes_AsString(drawn->object);
        drawn->size = PyBytes_Size(drawn->object);
    }
    return drawn->object == NULL && PyErr_Occurred() ? -1 : 0;
}

PyDoc_STRVAR(add_doc, "add(messages, most, most_bytes, largest): see columns_in_python.py.");

static PyObject *add(PyObject *object, PyObject *args)
{
    Columns *self = (Columns *)object;
    PyObject *messages;
    Py_ssize_t most, most_bytes, largest;
    Drawn drawn;
    Read read;
    if (!PyArg_ParseTuple(args, "Onnn:add", &messages, &most, &most_bytes, &largest))
        return NULL;
    if (!PyIter_Check(messages))
        return PyErr_Format(PyExc_TypeError, "an iterator is needed");
    while (self->rows < most && self->size < most_bytes) {
        if (draw(self, messages, &drawn) < 0)
            return NULL;
        if (drawn.at == NULL && drawn.object == NULL)
            break;
        if (drawn.at == NULL || drawn.size > largest ||
            !read_message(drawn.at, (size_t)drawn.size, self->header, self->properties, &read) ||
            !maps_are_plain(self, &read))
            return drawn.object != NULL ? drawn.object : PyBytes_FromStringAndSize(drawn.at, drawn.size);
        const int done = put_message(self, &read);
        Py_XDECREF(drawn.object);
        if (done < 0)
            return NULL;
        self->rows++;
        self->size += drawn.size;
    }
    Py_RETURN_NONE;
}

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
    Py_RETURN_NONE;
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
