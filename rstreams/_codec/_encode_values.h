/* Python values to AMQP: the part of _encode.c that knows the types, see encode.py.

   A `write_...` function returns false where it cannot go on: with a Python exception, or without one for a value that is
   left to Python.

   Python code of the user runs only inside `write_rare` and `is_simple`. It may change the lists and dicts that are being
   written, therefore each object is held while it is in use. */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "_bound.h"

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

typedef struct {
    PyObject *value_in_python, *item_in_python;
    PyObject *symbol_type, *uuid_type, *datetime_type, *utc;
    PyObject *narrow;   /* the types of `types.NARROW_TYPES` */
    PyObject *compound; /* the types that no application property may have */
    PyObject *name_int, *name_tzinfo, *name_timestamp, *sixty_four;
    PyTypeObject *message_type;
    Py_ssize_t body_slot, annotations_slot, properties_slot;
    list_section_t header, properties;
    long max_depth;
} codec_t;

/* --------------------------------------------------------------------------------------------------------- the output */

typedef struct {
    const codec_t *codec;
    char *bytes;
    size_t size, room;
    char small[1024];
} output_t;

static void begin(output_t *output, const codec_t *codec)
{
    output->codec = codec;
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

/* The places of the types in `types.NARROW_TYPES`. */
enum { OF_UBYTE, OF_USHORT, OF_UINT, OF_ULONG, OF_BYTE, OF_SHORT, OF_INT, OF_FLOAT, NARROW_TYPES };

/* Return the place of a number's type; `NARROW_TYPES` for any other value. */
static int narrow_type(const codec_t *codec, PyObject *value)
{
    int place = PyLong_Check(value) ? OF_UBYTE : PyFloat_Check(value) ? OF_FLOAT : NARROW_TYPES;
    while (place < NARROW_TYPES && PyTuple_GetItem(codec->narrow, place) != (PyObject *)Py_TYPE(value))
        place++;
    return place;
}

static bool write_narrow(output_t *output, PyObject *value, int type)
{
    static const unsigned char codes[] = {0x50, 0x60, 0, 0, 0x51, 0x61, 0x71, 0x72};
    static const int widths[] = {1, 2, 4, 8, 1, 2, 4, 4};
    uint64_t bits;
    if (type == OF_FLOAT) {
        float number = (float)PyFloat_AsDouble(value);
        uint32_t narrow;
        memcpy(&narrow, &number, sizeof narrow);
        bits = narrow;
    } else
        bits = PyLong_AsUnsignedLongLongMask(value);
    if (type == OF_UINT || type == OF_ULONG)
        return write_unsigned(output, bits, type == OF_UINT ? UINT : ULONG, widths[type]);
    if (type == OF_INT && bits + 128 < 256)
        return write_fixed(output, 0x54, bits, 1);
    return write_fixed(output, codes[type], bits, widths[type]);
}

static bool write_float(output_t *output, PyObject *value)
{
    double number = PyFloat_AsDouble(value);
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return write_fixed(output, 0x82, bits, 8);
}

/* The longest text whose UTF-8 the str object may keep, which makes it larger if it has more than ASCII. */
enum { KEPT = 256 };

static bool write_text(output_t *output, PyObject *text, unsigned char code)
{
    Py_ssize_t size, length = PyUnicode_GetLength(text);
    if (length <= KEPT) {
        const char *content = PyUnicode_AsUTF8AndSize(text, &size);
        if (content == NULL || (code == 0xA3 && size != length))
            return false; /* it has surrogates; or it is a symbol and has more than ASCII */
        return write_sized(output, code, content, size);
    }
    PyObject *encoded = PyUnicode_AsUTF8String(text);
    if (encoded == NULL)
        return false;
    size = PyBytes_Size(encoded);
    bool done = (code != 0xA3 || size == length) && write_sized(output, code, PyBytes_AsString(encoded), size);
    Py_DECREF(encoded);
    return done;
}

static bool write_uuid(output_t *output, PyObject *uuid)
{
    bool done = false;
    PyObject *number = PyObject_GetAttr(uuid, output->codec->name_int), *upper = NULL;
    if (number != NULL && PyLong_CheckExact(number) && (upper = PyNumber_Rshift(number, output->codec->sixty_four)) != NULL) {
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

/* Write a moment in UTC between 1716 and 2223; others are left to Python. */
static bool write_datetime(output_t *output, PyObject *moment)
{
    const double LIMIT = 8e9; /* below 2^33 seconds a double is less than half a microsecond away from the moment */
    PyObject *zone = PyObject_GetAttr(moment, output->codec->name_tzinfo), *told = NULL;
    bool done = zone == output->codec->utc;
    if (done && (done = (told = PyObject_CallMethodObjArgs(moment, output->codec->name_timestamp, NULL)) != NULL)) {
        double seconds = PyFloat_AsDouble(told);
        done = seconds > -LIMIT && seconds < LIMIT;
        if (done) {
            int64_t whole = (int64_t)seconds;
            double rest = (seconds - (double)whole) * 1e6;
            int64_t microseconds = whole * 1000000 + (int64_t)(rest < 0 ? rest - 0.5 : rest + 0.5);
            int64_t milliseconds = microseconds / 1000;
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
    if (depth >= output->codec->max_depth)
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
    if (PyUnicode_CheckExact(key) || (PyObject *)Py_TYPE(key) == output->codec->symbol_type)
        return write_text(output, key, of_section & NAME ? 0xA3 : 0xA1);
    if (!(of_section & NUMBER) || !PyLong_CheckExact(key))
        return false;
    unsigned long long number = PyLong_AsUnsignedLongLong(key);
    return !PyErr_Occurred() && write_unsigned(output, number, ULONG, 8);
}

/* Return whether an application property may have this value. */
static bool is_simple(PyObject *value, const codec_t *codec)
{
    return PyUnicode_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value) || PyFloat_CheckExact(value) ||
           PyBytes_CheckExact(value) || value == Py_None || narrow_type(codec, value) != NARROW_TYPES || (PyObject *)Py_TYPE(value) == codec->datetime_type ||
           (PyObject *)Py_TYPE(value) == codec->uuid_type || PyObject_IsInstance(value, codec->compound) == 0;
}

static bool write_map(output_t *output, PyObject *map, long depth, int of_section)
{
    Py_ssize_t position = 0, count = 0, size = PyDict_Size(map);
    PyObject *key, *value;
    size_t at;
    if (depth >= output->codec->max_depth || !begin_compound(output, &at))
        return false;
    while (PyDict_Next(map, &position, &key, &value)) {
        Py_INCREF(key);
        Py_INCREF(value);
        bool done = write_key(output, key, depth + 1, of_section) &&
                    (of_section != TEXT || is_simple(value, output->codec)) && write_value(output, value, depth + 1);
        Py_DECREF(key);
        Py_DECREF(value);
        count += 2;
        if (!done || PyDict_Size(map) != size || count / 2 > size)
            return false; /* also if the dict changes meanwhile, which is an error in Python */
    }
    return count / 2 == size && end_compound(output, 0xC1, at, count);
}

/* Write a rare value as `encode_value` in Python does. */
static bool write_rare(output_t *output, PyObject *value, long depth)
{
    PyObject *encoded = PyObject_CallFunction(output->codec->value_in_python, "Ol", value, depth);
    unsigned char *to = NULL;
    if (encoded != NULL && PyBytes_CheckExact(encoded) && (to = place(output, (size_t)PyBytes_Size(encoded))) != NULL)
        memcpy(to, PyBytes_AsString(encoded), (size_t)PyBytes_Size(encoded));
    Py_XDECREF(encoded);
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
    if (type == output->codec->symbol_type)
        return write_text(output, value, 0xA3);
    if (type == output->codec->uuid_type)
        return write_uuid(output, value);
    if (type == output->codec->datetime_type && write_datetime(output, value))
        return true;
    int narrow = narrow_type(output->codec, value);
    if (narrow != NARROW_TYPES)
        return write_narrow(output, value, narrow);
    /* A whole item or body that is rare is left to Python: it may be a Message of another class, or a ByteStream. */
    return depth > 0 && !PyErr_Occurred() && write_rare(output, value, depth);
}
