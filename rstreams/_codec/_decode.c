/* Encoded messages to Python, for the common cases: rstreams/message.py has the same functions in Python.

   A function here that finds bytes which are malformed, or of a rare kind, calls the function in Python with the same
   arguments, and returns its result or raises its error. Therefore both give the same values and the same errors.

   `bind` returns the functions. Its arguments are the state of the module. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_decode_values.h"

/* ------------------------------------------------------------------------------------------------------------ sections */

static const char FOOTED[3] = {0, 0x53, FOOTER};

/* Return the body whose section is `code`; NULL if it is of several sections. */
static PyObject *read_body(source_t *source, int code)
{
    PyObject *body = NULL;
    if (code == VALUE)
        /* A binary is left to Python, which makes a `Binary` of it. */
        return source->at < source->size && (source->bytes[source->at] & 0xEF) == 0xA0 ? NULL : read_value(source, 0);
    const unsigned char *form = code == DATA ? take(source, 1) : NULL;
    if (form == NULL || (*form != 0xA0 && *form != 0xB0) || (body = read_binary(source, *form == 0xB0)) == NULL)
        return NULL;
    if (source->at < source->size && (source->size - source->at < 3 || memcmp(source->bytes + source->at, FOOTED, 3) != 0))
        Py_CLEAR(body); /* another Data section follows, or something malformed */
    return body;
}

enum { MAX_FIELDS = 32, MAX_LIST = 16 };

typedef struct {
    Py_ssize_t at; /* where a message keeps it, in bytes from the start of the object */
    int kinds;
    unsigned long long limit;
} field_t;

typedef struct {
    Py_ssize_t count;
    field_t fields[MAX_LIST];
} list_section_t;

/* The state of the module: the arguments of `bind`. */
typedef struct {
    const values_t *values;
    PyObject *owner; /* of the values, a module `_values` */
    PyObject *body_in_python, *message_in_python, *count_in_python;
    PyTypeObject *type;
    allocfunc make;
    Py_ssize_t default_count, body_slot, annotations_slot, properties_slot;
    struct {
        Py_ssize_t at;
        PyObject *value;  /* the default, NULL for a new dict */
        PyObject *absent; /* stands for a value that `fill` does not get, if the default is a new dict; else NULL */
    } defaults[MAX_FIELDS];
    list_section_t header, properties;
} messages_t;

/* Return the value of a field for `value`, whose reference is taken over; NULL if the field cannot have it. */
static PyObject *allowed(PyObject *value, const field_t *field, const values_t *values)
{
    bool fits;
    if (PyUnicode_CheckExact(value))
        fits = field->kinds & TEXT;
    else if (PyBool_Check(value))
        fits = field->kinds & FLAG;
    else if (PyLong_CheckExact(value)) {
        fits = false;
        if (field->kinds & NUMBER) {
            unsigned long long number = PyLong_AsUnsignedLongLong(value);
            fits = !PyErr_Occurred() && number <= field->limit;
            if (fits && field->kinds & SECONDS) {
                Py_DECREF(value);
                return PyFloat_FromDouble((double)number / 1000);
            }
        }
    } else if (PyBytes_CheckExact(value))
        fits = field->kinds & BINARY;
    else if ((PyObject *)Py_TYPE(value) == values->uuid_type)
        fits = field->kinds & UNIQUE_ID;
    else if ((PyObject *)Py_TYPE(value) == values->datetime_type)
        fits = field->kinds & TIME;
    else
        fits = false;
    if (!fits)
        Py_CLEAR(value);
    return value;
}

/* Return the field that begins here, None if it is absent. */
static PyObject *read_field(source_t *source, const field_t *field)
{
    if (source->at >= source->size)
        return NULL;
    unsigned char code = source->bytes[source->at];
    if (code == 0x40) {
        source->at++;
        return Py_NewRef(Py_None);
    }
    PyObject *value;
    if ((code & 0xEF) == 0xA3) {
        source->at++;
        value = read_name(source, code & 0x10);
    } else
        value = read_plain(source, 1);
    return value == NULL ? NULL : allowed(value, field, source->values);
}

static bool read_fields(source_t *source, PyObject *message, const list_section_t *section)
{
    Py_ssize_t count = 0, end;
    const unsigned char *code = take(source, 1);
    if (code == NULL)
        return false;
    if (*code == 0x45)
        return true;
    if ((*code != 0xC0 && *code != 0xD0) || !enter_compound(source, *code == 0xD0, &count, &end) || count > section->count)
        return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *value = read_field(source, &section->fields[i]);
        if (value == NULL)
            return false;
        if (value == Py_None)
            Py_DECREF(value);
        else
            put(message, section->fields[i].at, value);
    }
    return source->at == end;
}

static bool read_pairs(source_t *source, PyObject *message, Py_ssize_t slot, int keys)
{
    const unsigned char *code = take(source, 1);
    if (code == NULL || (*code != 0xC1 && *code != 0xD1))
        return false;
    PyObject *map = read_map(source, *code == 0xD1, 0, keys);
    if (map == NULL)
        return false;
    put(message, slot, map);
    return true;
}

static bool read_sections(source_t *source, PyObject *message, const messages_t *messages)
{
    int code = 0;
    while (source->at < source->size) {
        code = take_section(source, code);
        bool done;
        switch (code) {
        case 0:
            return false;
        case HEADER:
            done = read_fields(source, message, &messages->header);
            break;
        case MESSAGE_ANNOTATIONS:
            done = read_pairs(source, message, messages->annotations_slot, TEXT | NUMBER);
            break;
        case PROPERTIES:
            done = read_fields(source, message, &messages->properties);
            break;
        case APPLICATION_PROPERTIES:
            done = read_pairs(source, message, messages->properties_slot, TEXT);
            break;
        case DATA:
        case SEQUENCE:
        case VALUE: {
            PyObject *body = read_body(source, code);
            done = body != NULL;
            if (done)
                put(message, messages->body_slot, body);
            code = VALUE;
            break;
        }
        default:
            done = skip(source);
        }
        if (!done)
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------------ of messages */

PyDoc_STRVAR(decode_body_doc, "decode_body(encoded): as in rstreams.message.");

static PyObject *decode_body(PyObject *module, PyObject *encoded)
{
    const messages_t *messages = PyModule_GetState(module);
    if (PyBytes_CheckExact(encoded)) {
        source_t source = source_of(encoded, messages->values);
        int code = 0;
        while ((code = take_section(&source, code)) != 0) {
            if (code >= DATA && code <= VALUE) {
                PyObject *body = read_body(&source, code);
                if (body != NULL)
                    return body;
                break;
            }
            if (!skip(&source))
                break;
        }
    }
    return leave() ? PyObject_CallFunctionObjArgs(messages->body_in_python, encoded, NULL) : NULL;
}

PyDoc_STRVAR(decode_message_doc, "decode_message(encoded): as in rstreams.message.");

static PyObject *decode_message(PyObject *module, PyObject *encoded)
{
    const messages_t *messages = PyModule_GetState(module);
    if (PyBytes_CheckExact(encoded)) {
        source_t source = source_of(encoded, messages->values);
        PyObject *message = messages->make(messages->type, 0);
        if (message == NULL)
            return NULL;
        bool whole = read_sections(&source, message, messages);
        for (Py_ssize_t i = 0; whole && i < messages->default_count; i++) {
            if (*(PyObject **)((char *)message + messages->defaults[i].at) != NULL)
                continue;
            PyObject *value = messages->defaults[i].absent ? PyDict_New() : Py_NewRef(messages->defaults[i].value);
            whole = value != NULL;
            put(message, messages->defaults[i].at, value);
        }
        if (whole)
            return message;
        Py_DECREF(message);
    }
    return leave() ? PyObject_CallFunctionObjArgs(messages->message_in_python, encoded, NULL) : NULL;
}

PyDoc_STRVAR(fill_doc, "fill(message, *values): set all fields of a message, in their order.");

static PyObject *fill(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const messages_t *messages = PyModule_GetState(module);
    if (count != messages->default_count + 1 || !PyObject_TypeCheck(args[0], messages->type))
        return PyErr_Format(PyExc_TypeError, "fill() takes a message and %zd values", messages->default_count);
    for (Py_ssize_t i = 0; i < messages->default_count; i++) {
        PyObject *value = args[i + 1] == messages->defaults[i].absent ? PyDict_New() : Py_NewRef(args[i + 1]);
        if (value == NULL)
            return NULL;
        put(args[0], messages->defaults[i].at, value);
    }
    return Py_NewRef(Py_None);
}

/* ------------------------------------------------------------------------------------------------ the delivery count */

enum { BEFORE_COUNT = 4 }; /* fields of a header before its delivery count */

/* Return the message with another delivery count; NULL without an exception if it is left to Python. */
static PyObject *counted(source_t *source, const list_section_t *header, uint64_t delivery_count)
{
    Py_ssize_t fields = 0, from = 0, until = 0, end = 0;
    int section = source->size == 0 ? FOOTER : take_section(source, 0);
    if (section == HEADER) {
        const unsigned char *code = take(source, 1);
        if (code == NULL || (*code != 0x45 && *code != 0xC0 && *code != 0xD0))
            return NULL;
        if (*code != 0x45 && !enter_compound(source, *code == 0xD0, &fields, &end))
            return NULL;
        if (fields > header->count)
            return NULL;
        from = until = source->at;
        for (Py_ssize_t i = 0; i < fields; i++) {
            PyObject *value = read_field(source, &header->fields[i]);
            if (value == NULL)
                return NULL;
            Py_DECREF(value);
            if (i < BEFORE_COUNT)
                until = source->at;
        }
        if (*code != 0x45 && source->at != end)
            return NULL;
        end = source->at;
    } else if (section == 0)
        return NULL;
    int kept = (int)(until - from), absent = BEFORE_COUNT - (int)(fields < BEFORE_COUNT ? fields : BEFORE_COUNT);
    int width = delivery_count == 0 ? 0 : delivery_count < 256 ? 1 : 4;
    if (until - from > 200)
        return NULL; /* more than a number or a flag a field can be */
    PyObject *encoded = PyBytes_FromStringAndSize(NULL, 6 + kept + absent + 1 + width + (source->size - end));
    if (encoded == NULL)
        return NULL;
    unsigned char *to = (unsigned char *)PyBytes_AsString(encoded);
    const unsigned char head[] = {0, 0x53, HEADER, 0xC0, (unsigned char)(kept + absent + width + 2), BEFORE_COUNT + 1};
    memcpy(to, head, sizeof head);
    memcpy(to += sizeof head, source->bytes + from, (size_t)kept);
    memset(to += kept, 0x40, (size_t)absent);
    *(to += absent) = width == 0 ? 0x43 : width == 1 ? 0x52 : 0x70;
    for (int i = width; i > 0; i--, delivery_count >>= 8)
        to[i] = (unsigned char)delivery_count;
    memcpy(to + 1 + width, source->bytes + end, (size_t)(source->size - end));
    return encoded;
}

PyDoc_STRVAR(with_delivery_count_doc, "with_delivery_count(encoded, delivery_count): as in rstreams.message.");

static PyObject *with_delivery_count(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const messages_t *messages = PyModule_GetState(module);
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "with_delivery_count() takes 2 arguments, not %zd", count);
    if (PyBytes_CheckExact(args[0]) && PyLong_CheckExact(args[1])) {
        source_t source = source_of(args[0], messages->values);
        unsigned long long number = PyLong_AsUnsignedLongLong(args[1]);
        PyObject *encoded = PyErr_Occurred() || number > UINT32_MAX ? NULL : counted(&source, &messages->header, number);
        if (encoded != NULL)
            return encoded;
    }
    return leave() ? PyObject_CallFunctionObjArgs(messages->count_in_python, args[0], args[1], NULL) : NULL;
}

/* ------------------------------------------------------------------------------------------------------------- bind */

static PyMethodDef of_messages[] = {
    {"decode_body", decode_body, METH_O, decode_body_doc},
    {"decode_message", decode_message, METH_O, decode_message_doc},
    {"with_delivery_count", FAST(with_delivery_count), METH_FASTCALL, with_delivery_count_doc},
    {"fill", FAST(fill), METH_FASTCALL, fill_doc},
    {NULL, NULL, 0, NULL},
};

static bool bind_list(PyObject *described, list_section_t *section)
{
    section->count = PyList_Size(described);
    for (Py_ssize_t i = 0; i < section->count && i < MAX_LIST; i++) {
        field_t *field = &section->fields[i];
        if (!PyArg_ParseTuple(PyList_GetItem(described, i), "niK", &field->at, &field->kinds, &field->limit))
            return false;
    }
    return section->count <= MAX_LIST;
}

static bool bind_defaults(PyObject *described, messages_t *messages)
{
    for (Py_ssize_t i = 0; i < PyList_Size(described); i++) {
        Py_ssize_t at;
        PyObject *value;
        int is_absent;
        if (i == MAX_FIELDS || !PyArg_ParseTuple(PyList_GetItem(described, i), "nOp", &at, &value, &is_absent))
            return false;
        messages->defaults[i].at = at;
        *(is_absent ? &messages->defaults[i].absent : &messages->defaults[i].value) = Py_NewRef(value);
        messages->default_count = i + 1;
    }
    return true;
}

PyDoc_STRVAR(bind_doc, "bind(values, message, in_python, places, defaults, header, properties): return the functions for "
                       "messages of the class `message`; `values` is the module that is bound to the types of values. To be "
                       "called once.");

static PyObject *bind(PyObject *module, PyObject *args)
{
    PyObject *owner, *type, *of_body, *of_message, *of_count, *of_type, *of_header, *of_properties;
    messages_t *messages = PyModule_GetState(module);
    if (messages->type != NULL)
        return PyErr_Format(PyExc_RuntimeError, "bind() has been called before");
    if (!PyArg_ParseTuple(args, "O!O!(OOO)(nnn)O!O!O!:bind", &PyModule_Type, &owner, &PyType_Type, &type, &of_body,
                          &of_message, &of_count, &messages->body_slot, &messages->annotations_slot,
                          &messages->properties_slot, &PyList_Type, &of_type, &PyList_Type, &of_header, &PyList_Type,
                          &of_properties))
        return NULL;
    const values_t *values = PyModule_GetState(owner);
    if (values == NULL || values->symbol_type == NULL)
        return PyErr_Format(PyExc_RuntimeError, "the bind() of the values has not been called");
    messages->values = values;
    messages->owner = Py_NewRef(owner);
    messages->body_in_python = Py_NewRef(of_body);
    messages->message_in_python = Py_NewRef(of_message);
    messages->count_in_python = Py_NewRef(of_count);
    messages->type = (PyTypeObject *)Py_NewRef(type);
    messages->make = (allocfunc)PyType_GetSlot(messages->type, Py_tp_alloc);
    if (bind_defaults(of_type, messages) && bind_list(of_header, &messages->header) &&
        bind_list(of_properties, &messages->properties))
        return functions_of(module, of_messages, "rstreams.message");
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "a message has more fields than this module has room for");
    return NULL;
}

/* Its functions hold the module, therefore no part of it can go first: there is no `m_clear`. */
static void release(void *module)
{
    messages_t *messages = PyModule_GetState(module);
    Py_XDECREF(messages->owner);
    Py_XDECREF(messages->body_in_python);
    Py_XDECREF(messages->message_in_python);
    Py_XDECREF(messages->count_in_python);
    Py_XDECREF((PyObject *)messages->type);
    for (Py_ssize_t i = 0; i < messages->default_count; i++) {
        Py_XDECREF(messages->defaults[i].value);
        Py_XDECREF(messages->defaults[i].absent);
    }
}

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS, bind_doc},
    {NULL, NULL, 0, NULL},
};

/* compiled.py compares this number; it changes with the arguments or the result of a function. */
enum { INTERFACE = 3 };

static int add_constants(PyObject *module)
{
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, add_constants},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "rstreams._codec._decode",
    .m_doc = "Encoded messages to Python, in C: see compiled.py.",
    .m_size = sizeof(messages_t),
    .m_methods = methods,
    .m_slots = module_slots,
    .m_free = release,
};

PyMODINIT_FUNC PyInit__decode(void)
{
    return PyModuleDef_Init(&definition);
}
