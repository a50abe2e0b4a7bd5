/* Python values and messages to AMQP: see encode.py and rstreams/message.py, which have the same in Python.

   Optional, and for the common cases: where a value is of a kind that is rare, or AMQP cannot carry it, the function in
   Python gets the whole of it, and returns or raises what it always does. So both give the same bytes and errors. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------ what `bind` is given */

enum { MAX_LIST = 16 };

/* How a field of a section is written; `message_fields.py` uses the same numbers. */
enum { TEXT = 1, NUMBER = 2, BINARY = 4, UNIQUE_ID = 8, FLAG = 16, TIME = 32, SECONDS = 64, NAME = 128, OCTET = 256 };

typedef struct {
    Py_ssize_t at; /* where the object of a message keeps it, in bytes */
    int kinds;
    unsigned long long limit;
    PyObject *absent;
} field_t;

typedef struct {
    Py_ssize_t count;
    field_t fields[MAX_LIST];
} list_section_t;

static PyObject *value_in_python, *item_in_python;
static PyObject *symbol_type, *uuid_type, *datetime_type, *utc;
static PyObject *name_int, *name_tzinfo, *name_timestamp, *sixty_four;
static PyTypeObject *message_type;
static Py_ssize_t body_slot, annotations_slot, properties_slot;
static list_section_t header, properties;
static long max_depth;

/* --------------------------------------------------------------------------------------------------------- the output */

typedef struct {
    char *bytes;
    size_t size, room;
    char small[1024];
} output_t;

/* A `write_...` function returns false where it cannot go on: with a Python exception, or without one for a value that
   is left to Python. */

static void begin(output_t *output)
{
    output->bytes = output->small;
    output->size = 0;
    output->room = sizeof output->small;
}

static void end(output_t *output)
{
    if (output->bytes != output->small)
        PyMem_Free(output->bytes);
}

/* Return where the next `count` bytes are to be written; NULL with an exception if there is no memory. */
static unsigned char *place(output_t *output, size_t count)
{
    if (count > output->room - output->size) {
        if (count > (size_t)PY_SSIZE_T_MAX / 2 - output->size) {
            PyErr_NoMemory();
            return NULL;
        }
        size_t room = 2 * (output->size + count);
        char *bytes = PyMem_Realloc(output->bytes == output->small ? NULL : output->bytes, room);
        if (bytes == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        if (output->bytes == output->small)
            memcpy(bytes, output->small, output->size);
        output->bytes = bytes;
        output->room = room;
    }
    unsigned char *to = (unsigned char *)output->bytes + output->size;
    output->size += count;
    return to;
}

static void put_number(unsigned char *to, uint64_t number, int width)
{
    for (int i = width - 1; i >= 0; i--) {
        to[i] = (unsigned char)number;
        number >>= 8;
    }
}

static bool write_fixed(output_t *output, unsigned char code, uint64_t number, int width)
{
    unsigned char *to = place(output, 1 + (size_t)width);
    if (to == NULL)
        return false;
    *to = code;
    put_number(to + 1, number, width);
    return true;
}

/* Write what has a length: its constructor is `code`, or `code | 0x10` with a length of 4 bytes. */
static bool write_sized(output_t *output, unsigned char code, const char *content, Py_ssize_t size)
{
    bool wide = size >= 256;
    if ((uint64_t)size > UINT32_MAX || !write_fixed(output, wide ? code | 0x10 : code, (uint64_t)size, wide ? 4 : 1))
        return false;
    unsigned char *to = place(output, (size_t)size);
    if (to == NULL)
        return false;
    memcpy(to, content, (size_t)size);
    return true;
}

/* A list or map is begun with the room of its longest head, and the shorter head takes its place where it will do. */
enum { HEAD = 9, SHORT_HEAD = 3 };

static bool begin_compound(output_t *output, size_t *at)
{
    *at = output->size;
    return place(output, HEAD) != NULL;
}

static bool end_compound(output_t *output, unsigned char code, size_t at, Py_ssize_t count)
{
    unsigned char *head = (unsigned char *)output->bytes + at;
    size_t size = output->size - at - HEAD;
    if (size < 255 && count < 256) {
        memmove(head + SHORT_HEAD, head + HEAD, size);
        output->size -= HEAD - SHORT_HEAD;
        head[0] = code;
        head[1] = (unsigned char)(size + 1);
        head[2] = (unsigned char)count;
        return true;
    }
    if (size > UINT32_MAX - 4 || (uint64_t)count > UINT32_MAX)
        return false;
    head[0] = code | 0x10;
    put_number(head + 1, size + 4, 4);
    put_number(head + 5, (uint64_t)count, 4);
    return true;
}

/* ------------------------------------------------------------------------------------------------------------- values */

static bool write_value(output_t *output, PyObject *value, long depth);

static bool write_int(output_t *output, PyObject *value)
{
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0)
        return number >= -128 && number < 128 ? write_fixed(output, 0x55, (uint64_t)number, 1)
                                              : write_fixed(output, 0x81, (uint64_t)number, 8);
    unsigned long long large = overflow > 0 ? PyLong_AsUnsignedLongLong(value) : 0;
    return overflow > 0 && !PyErr_Occurred() && write_fixed(output, 0x80, large, 8);
}

/* Write an unsigned number in its shortest form: of none, one or `width` bytes, with a constructor for each. */
static bool write_unsigned(output_t *output, uint64_t number, const unsigned char codes[3], int width)
{
    if (number == 0)
        return write_fixed(output, codes[0], 0, 0);
    return number < 256 ? write_fixed(output, codes[1], number, 1) : write_fixed(output, codes[2], number, width);
}

static const unsigned char ULONG[3] = {0x44, 0x53, 0x80}, UINT[3] = {0x43, 0x52, 0x70};

static bool write_float(output_t *output, PyObject *value)
{
    double number = PyFloat_AsDouble(value);
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return write_fixed(output, 0x82, bits, 8);
}

static bool write_text(output_t *output, PyObject *text, unsigned char code)
{
    Py_ssize_t size;
    const char *content = PyUnicode_AsUTF8AndSize(text, &size);
    if (content == NULL || (code == 0xA3 && size != PyUnicode_GetLength(text)))
        return false; /* it has halves of characters; or a symbol has more than ASCII */
    return write_sized(output, code, content, size);
}

static bool write_uuid(output_t *output, PyObject *uuid)
{
    bool done = false;
    PyObject *number = PyObject_GetAttr(uuid, name_int), *upper = NULL;
    if (number != NULL && (upper = PyNumber_Rshift(number, sixty_four)) != NULL) {
        uint64_t low = PyLong_AsUnsignedLongLongMask(number), high = PyLong_AsUnsignedLongLong(upper);
        unsigned char *to = PyErr_Occurred() ? NULL : place(output, 17);
        done = to != NULL;
        if (done) {
            *to = 0x98;
            put_number(to + 1, high, 8);
            put_number(to + 9, low, 8);
        }
    }
    Py_XDECREF(number);
    Py_XDECREF(upper);
    return done;
}

/* Write a moment in UTC between 1906 and 2033; others are left to Python. */
static bool write_datetime(output_t *output, PyObject *moment)
{
    PyObject *zone = PyObject_GetAttr(moment, name_tzinfo), *told = NULL;
    bool done = zone == utc && (told = PyObject_CallMethodObjArgs(moment, name_timestamp, NULL)) != NULL;
    if (done) {
        double seconds = PyFloat_AsDouble(told);
        done = seconds > -2e9 && seconds < 2e9; /* of more seconds a double does not keep each microsecond */
        if (done) {
            int64_t microseconds = (int64_t)(seconds * 1e6 + (seconds < 0 ? -0.5 : 0.5)), milliseconds = microseconds / 1000;
            if (microseconds % 1000 < 0)
                milliseconds -= 1; /* as // in Python */
            done = write_fixed(output, 0x83, (uint64_t)milliseconds, 8);
        }
    }
    Py_XDECREF(zone);
    Py_XDECREF(told);
    return done;
}

static bool write_list(output_t *output, PyObject *items, long depth)
{
    bool is_list = PyList_CheckExact(items);
    size_t at;
    if (depth >= max_depth)
        return false;
    Py_ssize_t count = 0;
    if ((is_list ? PyList_Size(items) : PyTuple_Size(items)) == 0)
        return write_fixed(output, 0x45, 0, 0);
    if (!begin_compound(output, &at))
        return false;
    for (; count < (is_list ? PyList_Size(items) : PyTuple_Size(items)); count++) {
        PyObject *item = Py_NewRef(is_list ? PyList_GetItem(items, count) : PyTuple_GetItem(items, count));
        bool done = write_value(output, item, depth + 1);
        Py_DECREF(item);
        if (!done)
            return false;
    }
    return end_compound(output, 0xC0, at, count);
}

/* Write a key of the section `of_section`, a str or there an int; any value if it is 0. */
static bool write_key(output_t *output, PyObject *key, long depth, int of_section)
{
    if (!of_section)
        return write_value(output, key, depth);
    if (PyUnicode_CheckExact(key))
        return write_text(output, key, of_section & NAME ? 0xA3 : 0xA1);
    if (!(of_section & NUMBER) || !PyLong_CheckExact(key))
        return false;
    unsigned long long number = PyLong_AsUnsignedLongLong(key);
    return !PyErr_Occurred() && write_unsigned(output, number, ULONG, 8);
}

static bool is_simple(PyObject *value)
{
    return !PyList_Check(value) && !PyTuple_Check(value) && !PyDict_Check(value) &&
           (PyUnicode_Check(value) || PyLong_Check(value) || PyFloat_Check(value) || PyBytes_Check(value) ||
            value == Py_None || (PyObject *)Py_TYPE(value) == datetime_type || (PyObject *)Py_TYPE(value) == uuid_type);
}

static bool write_map(output_t *output, PyObject *map, long depth, int of_section)
{
    Py_ssize_t position = 0, count = 0;
    PyObject *key, *value;
    size_t at;
    if (depth >= max_depth || !begin_compound(output, &at))
        return false;
    while (PyDict_Next(map, &position, &key, &value)) {
        Py_INCREF(key);
        Py_INCREF(value);
        bool done = write_key(output, key, depth + 1, of_section) &&
                    (of_section != TEXT || is_simple(value)) && write_value(output, value, depth + 1);
        Py_DECREF(key);
        Py_DECREF(value);
        if (!done)
            return false;
        count += 2;
    }
    return end_compound(output, 0xC1, at, count);
}

/* Write a rare value as `encode_value` in Python has it. */
static bool write_rare(output_t *output, PyObject *value, long depth)
{
    PyObject *encoded = PyObject_CallFunction(value_in_python, "Ol", value, depth);
    if (encoded == NULL)
        return false;
    unsigned char *to = place(output, (size_t)PyBytes_Size(encoded));
    if (to != NULL)
        memcpy(to, PyBytes_AsString(encoded), (size_t)PyBytes_Size(encoded));
    Py_DECREF(encoded);
    return to != NULL;
}

static bool write_value(output_t *output, PyObject *value, long depth)
{
    if (PyUnicode_CheckExact(value))
        return write_text(output, value, 0xA1);
    if (PyLong_CheckExact(value))
        return write_int(output, value);
    if (value == Py_None)
        return write_fixed(output, 0x40, 0, 0);
    if (PyBool_Check(value))
        return write_fixed(output, value == Py_True ? 0x41 : 0x42, 0, 0);
    if (PyFloat_CheckExact(value))
        return write_float(output, value);
    if (PyBytes_CheckExact(value))
        return write_sized(output, 0xA0, PyBytes_AsString(value), PyBytes_Size(value));
    if (PyDict_CheckExact(value))
        return write_map(output, value, depth, 0);
    if (PyList_CheckExact(value) || PyTuple_CheckExact(value))
        return write_list(output, value, depth);
    PyObject *type = (PyObject *)Py_TYPE(value);
    if (type == symbol_type)
        return write_text(output, value, 0xA3);
    if (type == uuid_type)
        return write_uuid(output, value);
    return (type == datetime_type && write_datetime(output, value)) || (!PyErr_Occurred() && write_rare(output, value, depth));
}

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
    uint64_t milliseconds = (uint64_t)(seconds * 1000);
    double rest = seconds * 1000 - (double)milliseconds;
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
    if (field->kinds & UNIQUE_ID && type == uuid_type)
        return write_uuid(output, value);
    return field->kinds & TIME && type == datetime_type && write_datetime(output, value);
}

/* Write a section that is a list, without the fields at its end that are absent; nothing if all are. */
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
        PyObject *value = field_of(message, field->at);
        if (value == NULL || !(value == field->absent ? write_fixed(output, 0x40, 0, 0) : write_field(output, value, field)))
            return false;
    }
    return end_compound(output, 0xC0, at, used);
}

static bool write_pairs(output_t *output, PyObject *map, unsigned char code, int keys)
{
    if (map == NULL || !PyDict_CheckExact(map))
        return false;
    return PyDict_Size(map) == 0 || (write_start(output, code) && write_map(output, map, 0, keys));
}

/* Return what has been written with `content` behind it, as the last there is, in a Data section. */
static PyObject *with_data(output_t *output, PyObject *content)
{
    Py_ssize_t size = PyBytes_Size(content);
    bool wide = size >= 256;
    if ((uint64_t)size > UINT32_MAX || !write_start(output, OF_DATA) ||
        !write_fixed(output, wide ? 0xB0 : 0xA0, (uint64_t)size, wide ? 4 : 1))
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
    if (PyBytes_Check(body) || PyByteArray_Check(body) || PyMemoryView_Check(body) || !write_start(output, OF_VALUE) || !write_value(output, body, 0))
        return NULL;
    return PyBytes_FromStringAndSize(output->bytes, (Py_ssize_t)output->size);
}

static PyObject *with_message(output_t *output, PyObject *message)
{
    PyObject *body = field_of(message, body_slot);
    if (body == NULL || !write_fields(output, message, OF_HEADER, &header) ||
        !write_pairs(output, field_of(message, annotations_slot), OF_ANNOTATIONS, TEXT | NUMBER | NAME) ||
        !write_fields(output, message, OF_PROPERTIES, &properties) ||
        !write_pairs(output, field_of(message, properties_slot), OF_APPLICATION_PROPERTIES, TEXT))
        return NULL;
    return with_body(output, body);
}

/* ------------------------------------------------------------------------------------------------------ the functions */

/* Let Python have the whole of it, unless what happened is nothing that the value has caused. */
static PyObject *leave_to(PyObject *in_python, PyObject *value)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
        return NULL;
    PyErr_Clear();
    return PyObject_CallFunctionObjArgs(in_python, value, NULL);
}

static bool is_bound(void)
{
    if (message_type != NULL)
        return true;
    PyErr_SetString(PyExc_RuntimeError, "bind() has not been called");
    return false;
}

PyDoc_STRVAR(encode_item_doc, "encode_item(item): as in rstreams.message.");

static PyObject *encode_item(PyObject *Py_UNUSED(module), PyObject *item)
{
    if (!is_bound())
        return NULL;
    output_t output;
    begin(&output);
    PyObject *encoded = Py_TYPE(item) == message_type ? with_message(&output, item) : with_body(&output, item);
    end(&output);
    return encoded == NULL ? leave_to(item_in_python, item) : encoded;
}

/* --------------------------------------------------------------------------------------------------------------- bind */

static bool bind_list(PyObject *described, list_section_t *section)
{
    section->count = PyList_Size(described);
    if (section->count < 0 || section->count > MAX_LIST)
        return false;
    for (Py_ssize_t i = 0; i < section->count; i++) {
        field_t *field = &section->fields[i];
        if (!PyArg_ParseTuple(PyList_GetItem(described, i), "niKO", &field->at, &field->kinds, &field->limit, &field->absent))
            return false;
        Py_INCREF(field->absent);
    }
    return true;
}

PyDoc_STRVAR(bind_doc, "bind(types, in_python, slots, header, properties, max_depth): use these types and functions from now "
                       "on, for this process.");

static PyObject *bind(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *type, *of_header, *of_properties;
    if (!PyArg_ParseTuple(args, "(OOOOO)(OO)(nnn)O!O!l:bind", &type, &symbol_type, &uuid_type, &datetime_type, &utc,
                          &value_in_python, &item_in_python, &body_slot, &annotations_slot, &properties_slot, &PyList_Type,
                          &of_header, &PyList_Type, &of_properties, &max_depth))
        return NULL;
    PyObject *const kept[] = {type, symbol_type, uuid_type, datetime_type, utc, value_in_python, item_in_python};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        Py_INCREF(kept[i]);
    name_int = PyUnicode_InternFromString("int");
    name_tzinfo = PyUnicode_InternFromString("tzinfo");
    name_timestamp = PyUnicode_InternFromString("timestamp");
    sixty_four = PyLong_FromLong(64);
    if (!bind_list(of_header, &header) || !bind_list(of_properties, &properties))
        return NULL;
    message_type = (PyTypeObject *)type;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS, bind_doc},
    {"encode_item", encode_item, METH_O, encode_item_doc},
    {NULL, NULL, 0, NULL},
};

/* What compiled.py asks for: another number when what a function takes or returns has changed. */
enum { INTERFACE = 1 };

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
    .m_doc = "Python values to AMQP, in C: see encode.py.",
    .m_methods = methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__encode(void)
{
    return PyModuleDef_Init(&definition);
}
