/* Python values and messages to AMQP, for the common cases: encode.py and rstreams/message.py do the same in Python.

   Where a value is of a rare kind, or AMQP cannot carry it, the function in Python is called, and its result or exception is
   the result here. Therefore both give the same bytes and the same errors.

   `bind` returns the function. Its arguments are the state of the module. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_encode_values.h"

/* ----------------------------------------------------------------------------------------------------------- sections */

enum { OF_HEADER = 0x70, OF_ANNOTATIONS = 0x72, OF_PROPERTIES, OF_APPLICATION_PROPERTIES, OF_DATA, OF_VALUE = 0x77 };

static bool write_start(output_t *output, unsigned char code)
{
    unsigned char *to = place(output, 3);
    if (to == NULL)
        return false;
    to[0] = 0;
    to[1] = 0x53;
    to[2] = code;
    return true;
}

static PyObject *field_of(PyObject *message, Py_ssize_t slot)
{
    return *(PyObject **)((char *)message + slot);
}

/* Write seconds as milliseconds, half of one rounded to even as in Python. */
static bool write_seconds(output_t *output, PyObject *value, unsigned long long limit)
{
    double seconds = PyFloat_CheckExact(value) || PyLong_CheckExact(value) ? PyFloat_AsDouble(value) : -1;
    if (!(seconds >= 0 && seconds <= (double)limit / 1000))
        return false;
    double exact = seconds * 1000; /* by itself: a compiler must not join the product with the next operation */
    uint64_t milliseconds = (uint64_t)exact;
    double rest = exact - (double)milliseconds;
    milliseconds += rest > 0.5 || (rest == 0.5 && milliseconds & 1);
    return write_unsigned(output, milliseconds, UINT, 4);
}

static bool write_field(output_t *output, PyObject *value, const field_t *field)
{
    if (field->kinds & TEXT && PyUnicode_CheckExact(value))
        return write_text(output, value, field->kinds & NAME ? 0xA3 : 0xA1);
    if (field->kinds & SECONDS)
        return write_seconds(output, value, field->limit);
    if (field->kinds & NUMBER && PyLong_CheckExact(value)) {
        unsigned long long number = PyLong_AsUnsignedLongLong(value);
        if (PyErr_Occurred() || number > field->limit)
            return false;
        if (field->kinds & OCTET)
            return write_fixed(output, 0x50, number, 1);
        return field->kinds & UNIQUE_ID ? write_unsigned(output, number, ULONG, 8) : write_unsigned(output, number, UINT, 4);
    }
    if (field->kinds & FLAG && PyBool_Check(value))
        return write_fixed(output, value == Py_True ? 0x41 : 0x42, 0, 0);
    if (field->kinds & BINARY && PyBytes_CheckExact(value))
        return write_value(output, value, 0);
    PyObject *type = (PyObject *)Py_TYPE(value);
    if (field->kinds & UNIQUE_ID && type == output->codec->uuid_type)
        return write_uuid(output, value);
    return field->kinds & TIME && type == output->codec->datetime_type &&
           (write_datetime(output, value) || (!PyErr_Occurred() && write_rare(output, value, 0)));
}

/* Write a section that is a list, without the absent fields at its end; no section if all are absent. */
static bool write_fields(output_t *output, PyObject *message, unsigned char code, const list_section_t *section)
{
    Py_ssize_t used = section->count;
    while (used > 0 && field_of(message, section->fields[used - 1].at) == section->fields[used - 1].absent)
        used--;
    if (used == 0)
        return true;
    size_t at;
    if (!write_start(output, code) || !begin_compound(output, &at))
        return false;
    for (Py_ssize_t i = 0; i < used; i++) {
        const field_t *field = &section->fields[i];
        PyObject *value = Py_XNewRef(field_of(message, field->at));
        bool done = value != NULL &&
                    (value == field->absent ? write_fixed(output, 0x40, 0, 0) : write_field(output, value, field));
        Py_XDECREF(value);
        if (!done)
            return false;
    }
    return end_compound(output, 0xC0, at, used);
}

static bool write_pairs(output_t *output, PyObject *map, unsigned char code, int keys)
{
    if (map == NULL || !PyDict_CheckExact(map))
        return false;
    if (PyDict_Size(map) == 0)
        return true;
    Py_INCREF(map);
    bool done = write_start(output, code) && write_map(output, map, 0, keys);
    Py_DECREF(map);
    return done;
}

/* Return the written bytes with `content` behind them, in a Data section, which is the last one. */
static PyObject *with_data(output_t *output, PyObject *content)
{
    Py_ssize_t size = PyBytes_Size(content);
    bool wide = size >= 256;
    if ((uint64_t)size > UINT32_MAX || !write_start(output, OF_DATA) ||
        !write_fixed(output, wide ? 0xB0 : 0xA0, (uint64_t)size, wide ? 4 : 1) ||
        output->size > (size_t)(PY_SSIZE_T_MAX - size))
        return NULL;
    PyObject *encoded = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)output->size + size);
    if (encoded != NULL) {
        memcpy(PyBytes_AsString(encoded), output->bytes, output->size);
        memcpy(PyBytes_AsString(encoded) + output->size, PyBytes_AsString(content), (size_t)size);
    }
    return encoded;
}

static PyObject *with_body(output_t *output, PyObject *body)
{
    if (PyBytes_CheckExact(body))
        return with_data(output, body);
    if (!write_start(output, OF_VALUE) || !write_value(output, body, 0))
        return NULL;
    return PyBytes_FromStringAndSize(output->bytes, (Py_ssize_t)output->size);
}

static PyObject *with_message(output_t *output, PyObject *message)
{
    const codec_t *codec = output->codec;
    if (!write_fields(output, message, OF_HEADER, &codec->header) ||
        !write_pairs(output, field_of(message, codec->annotations_slot), OF_ANNOTATIONS, TEXT | NUMBER | NAME) ||
        !write_fields(output, message, OF_PROPERTIES, &codec->properties) ||
        !write_pairs(output, field_of(message, codec->properties_slot), OF_APPLICATION_PROPERTIES, TEXT))
        return NULL;
    PyObject *body = Py_XNewRef(field_of(message, codec->body_slot)), *encoded = NULL;
    if (body != NULL)
        encoded = with_body(output, body);
    Py_XDECREF(body);
    return encoded;
}

PyDoc_STRVAR(encode_item_doc, "encode_item(item): as in rstreams.message.");

static PyObject *encode_item(PyObject *module, PyObject *item)
{
    const codec_t *codec = PyModule_GetState(module);
    output_t output;
    begin(&output, codec);
    PyObject *encoded = Py_TYPE(item) == codec->message_type ? with_message(&output, item) : with_body(&output, item);
    end(&output);
    if (encoded != NULL || !leave())
        return encoded;
    return PyObject_CallFunctionObjArgs(codec->item_in_python, item, NULL);
}

/* --------------------------------------------------------------------------------------------------------------- bind */

static void forget_list(list_section_t *section)
{
    for (Py_ssize_t i = 0; i < section->count; i++)
        Py_XDECREF(section->fields[i].absent);
}

/* Its function holds the module, therefore no part of it can go first: there is no `m_clear`. */
static void release(void *module)
{
    codec_t *codec = PyModule_GetState(module);
    PyObject *const kept[] = {codec->value_in_python, codec->item_in_python, codec->symbol_type, codec->uuid_type,
                              codec->datetime_type,   codec->utc,            codec->narrow,      codec->compound,
                              codec->name_int,        codec->name_tzinfo,    codec->name_timestamp, codec->sixty_four,
                              (PyObject *)codec->message_type};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        Py_XDECREF(kept[i]);
    forget_list(&codec->header);
    forget_list(&codec->properties);
}

static bool bind_list(PyObject *described, list_section_t *section)
{
    for (Py_ssize_t i = 0; i < PyList_Size(described); i++) {
        field_t field;
        if (i == MAX_LIST || !PyArg_ParseTuple(PyList_GetItem(described, i), "niKO", &field.at, &field.kinds,
                                               &field.limit, &field.absent))
            return false;
        Py_INCREF(field.absent);
        section->fields[i] = field;
        section->count = i + 1;
    }
    return true;
}

static PyMethodDef of_messages[] = {
    {"encode_item", encode_item, METH_O, encode_item_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(bind_doc, "bind(types, compound, in_python, slots, header, properties, max_depth): return the function "
                       "`encode_item` for these types, in a list. To be called once.");

static PyObject *bind(PyObject *module, PyObject *args)
{
    codec_t *codec = PyModule_GetState(module), told = {0};
    PyObject *of_header, *of_properties;
    if (!PyArg_ParseTuple(args, "(O!OOOOO!)O!(OO)(nnn)O!O!l:bind", &PyType_Type, &told.message_type, &told.symbol_type,
                          &told.uuid_type, &told.datetime_type, &told.utc, &PyTuple_Type, &told.narrow, &PyTuple_Type, &told.compound,
                          &told.value_in_python, &told.item_in_python, &told.body_slot, &told.annotations_slot,
                          &told.properties_slot, &PyList_Type, &of_header, &PyList_Type, &of_properties, &told.max_depth))
        return NULL;
    if (codec->message_type != NULL)
        return PyErr_Format(PyExc_RuntimeError, "bind() has been called before");
    told.name_int = PyUnicode_InternFromString("int");
    told.name_tzinfo = PyUnicode_InternFromString("tzinfo");
    told.name_timestamp = PyUnicode_InternFromString("timestamp");
    told.sixty_four = PyLong_FromLong(64);
    *codec = told;
    PyObject *const borrowed[] = {codec->value_in_python, codec->item_in_python, codec->symbol_type, codec->uuid_type,
                                  codec->datetime_type,   codec->utc,            codec->narrow,      codec->compound,
                                  (PyObject *)codec->message_type};
    for (size_t i = 0; i < sizeof borrowed / sizeof borrowed[0]; i++)
        Py_INCREF(borrowed[i]);
    if (told.name_int != NULL && told.name_tzinfo != NULL && told.name_timestamp != NULL && told.sixty_four != NULL &&
        bind_list(of_header, &codec->header) && bind_list(of_properties, &codec->properties))
        return functions_of(module, of_messages, "rstreams.message");
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "a section has more fields than this module has room for");
    return NULL;
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
    .m_name = "rstreams._codec._encode",
    .m_doc = "Python items to AMQP, in C: see compiled.py.",
    .m_size = sizeof(codec_t),
    .m_methods = methods,
    .m_slots = module_slots,
    .m_free = release,
};

PyMODINIT_FUNC PyInit__encode(void)
{
    return PyModuleDef_Init(&definition);
}
