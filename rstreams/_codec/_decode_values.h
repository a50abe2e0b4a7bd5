/* Encoded AMQP values to Python: the part of _decode.c that knows the types, see decode_in_python.py.

   A `read_...` function returns a new reference. It returns NULL with a Python exception if something failed, and NULL
   without one for bytes that are left to Python: malformed ones, and rare types that are not read here.

   No length is trusted: `take` is the only way forward, and it knows the end. Values nest as deep as in Python. */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "_bound.h"

enum { IN_PYTHON = 9 };

/* Keys that were read lately. The maps of a stream have the same keys again and again: a str that is known needs no memory
   and no hash. A key has one place, which the last key with that place has. */
enum { KNOWN_KEYS = 256, KNOWN_KEY_BYTES = 32 };

typedef struct {
    PyObject *key;       /* a str of ASCII alone; NULL if there is none */
    const char *content; /* its characters, in the str */
    Py_ssize_t size;
} known_key_t;

/* The state of the module `_values`: what its `bind` is given, and the known keys. */
typedef struct {
    known_key_t *keys;
    PyObject *symbol_type, *uuid_type, *datetime_type, *utc, *unsafe, *sixty_four;
    PyObject *narrow; /* the types of `types.NARROW_TYPES` */
    newfunc make_int, make_float;
    PyObject *read_in_python, *in_python[IN_PYTHON]; /* functions in Python, see _values.c */
    allocfunc make_uuid;
    Py_ssize_t uuid_int_slot, uuid_safety_slot;
    long max_depth;
} values_t;

/* The values of a key or a field; `message_fields.py` uses the same numbers. */
enum { TEXT = 1, NUMBER = 2, BINARY = 4, UNIQUE_ID = 8, FLAG = 16, TIME = 32, SECONDS = 64 };

/* --------------------------------------------------------------------------------------------------------- the cursor */

typedef struct {
    const unsigned char *bytes;
    Py_ssize_t size, at;
    PyObject *buffer;
    const values_t *values;
} source_t;

static source_t source_of(PyObject *encoded, const values_t *values)
{
    return (source_t){(const unsigned char *)PyBytes_AsString(encoded), PyBytes_Size(encoded), 0, encoded, values};
}

/* Take the next `count` bytes, and return where they are; NULL if there are fewer. */
static const unsigned char *take(source_t *source, uint64_t count)
{
    if (count > (uint64_t)(source->size - source->at))
        return NULL;
    const unsigned char *from = source->bytes + source->at;
    source->at += (Py_ssize_t)count;
    return from;
}

static uint64_t number_at(const unsigned char *from, int width)
{
    uint64_t number = 0;
    for (int i = 0; i < width; i++)
        number = number << 8 | from[i];
    return number;
}

/* Take a length of 1 byte, or of 4 if `wide`. */
static bool take_length(source_t *source, bool wide, uint64_t *length)
{
    const unsigned char *from = take(source, wide ? 4 : 1);
    if (from == NULL)
        return false;
    *length = number_at(from, wide ? 4 : 1);
    return true;
}

/* Go to the end of the value that begins here, without reading it. */
static bool skip(source_t *source)
{
    static const unsigned char widths[] = {0, 1, 2, 4, 8, 16};
    for (Py_ssize_t values = 1; values > 0; values--) {
        const unsigned char *code = take(source, 1);
        uint64_t length;
        if (code == NULL)
            return false;
        if (*code >= 0xA0) {
            if (!take_length(source, *code & 0x10, &length) || take(source, length) == NULL)
                return false;
        } else if (*code >= 0x40) {
            if (take(source, widths[(*code >> 4) - 4]) == NULL)
                return false;
        } else if (*code == 0)
            values += 2;
        else
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------------------- values */

/* Set the attribute of `object` at `slot` to `value`, whose reference is taken over. */
static void put(PyObject *object, Py_ssize_t slot, PyObject *value)
{
    PyObject **place = (PyObject **)((char *)object + slot), *before = *place;
    *place = value;
    Py_XDECREF(before);
}

static PyObject *read_value(source_t *source, long depth);
static PyObject *read_plain(source_t *source, long depth);

static PyObject *read_text(source_t *source, bool wide)
{
    uint64_t length;
    const unsigned char *from;
    if (!take_length(source, wide, &length) || (from = take(source, length)) == NULL)
        return NULL;
    return PyUnicode_DecodeUTF8((const char *)from, (Py_ssize_t)length, NULL);
}

/* Return the text of a key of a map; the same str as last time if it is known. */
static PyObject *read_key_text(source_t *source, bool wide)
{
    uint64_t length;
    const unsigned char *from;
    if (!take_length(source, wide, &length) || (from = take(source, length)) == NULL)
        return NULL;
    Py_ssize_t size = (Py_ssize_t)length;
    if (size > KNOWN_KEY_BYTES)
        return PyUnicode_DecodeUTF8((const char *)from, size, NULL);
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (Py_ssize_t i = 0; i < size; i++)
        hash = (hash ^ from[i]) * 16777619u;
    known_key_t *known = &source->values->keys[(hash ^ hash >> 16) % KNOWN_KEYS];
    if (known->key != NULL && known->size == size && memcmp(known->content, from, (size_t)size) == 0)
        return Py_NewRef(known->key);
    PyObject *key = PyUnicode_DecodeUTF8((const char *)from, size, NULL);
    if (key == NULL || PyUnicode_GetLength(key) != size)
        return key; /* it has more than ASCII, and its UTF-8 is not in the str */
    const char *content = PyUnicode_AsUTF8AndSize(key, &size);
    if (content == NULL) {
        Py_DECREF(key);
        return NULL;
    }
    PyObject *before = known->key;
    *known = (known_key_t){Py_NewRef(key), content, size};
    Py_XDECREF(before);
    return key;
}

/* Return a symbol's text as a str. */
static PyObject *read_name(source_t *source, bool wide)
{
    uint64_t length;
    const unsigned char *from;
    if (!take_length(source, wide, &length) || (from = take(source, length)) == NULL)
        return NULL;
    return PyUnicode_DecodeASCII((const char *)from, (Py_ssize_t)length, NULL);
}

static PyObject *read_symbol(source_t *source, bool wide)
{
    PyObject *name = read_name(source, wide), *symbol;
    if (name == NULL)
        return NULL;
    symbol = PyObject_CallFunctionObjArgs(source->values->symbol_type, name, NULL);
    Py_DECREF(name);
    return symbol;
}

static PyObject *read_binary(source_t *source, bool wide)
{
    uint64_t length;
    const unsigned char *from;
    if (!take_length(source, wide, &length) || (from = take(source, length)) == NULL)
        return NULL;
    return PyBytes_FromStringAndSize((const char *)from, (Py_ssize_t)length);
}

/* Return the datetime so many milliseconds after 1970; NULL for one before year 1 or after year 9999. */
static PyObject *datetime_of(const values_t *values, int64_t milliseconds)
{
    const int64_t DAY = 86400000, FIRST = -62135596800000, LAST = 253402300799999;
    if (milliseconds < FIRST || milliseconds > LAST)
        return NULL;
    int64_t days = milliseconds / DAY, rest = milliseconds % DAY;
    if (rest < 0) {
        rest += DAY;
        days -= 1;
    }
    /* Days since March 1st of the year 0 of the Gregorian calendar, whose eras have 146,097 days: as a year that begins
       with March has its leap day at its end, months and days follow from the day of the year by arithmetic. */
    int64_t since = days + 719468, era = since / 146097, day_of_era = since % 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month_from_march = (5 * day_of_year + 2) / 153;
    int day = (int)(day_of_year - (153 * month_from_march + 2) / 5 + 1);
    int month = (int)(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9);
    int year = (int)(era * 400 + year_of_era + (month <= 2));
    int seconds = (int)(rest / 1000);
    long microseconds = (long)(rest % 1000) * 1000;
    /* From the ten bytes of its pickled form a datetime is made in a third of the time that eight numbers take. */
    const char state[10] = {(char)(year >> 8), (char)year, (char)month, (char)day, (char)(seconds / 3600),
                            (char)(seconds / 60 % 60), (char)(seconds % 60), (char)(microseconds >> 16),
                            (char)(microseconds >> 8), (char)microseconds};
    PyObject *moment = NULL, *pickled = PyBytes_FromStringAndSize(state, sizeof state);
    if (pickled != NULL)
        moment = PyObject_CallFunctionObjArgs(values->datetime_type, pickled, values->utc, NULL);
    Py_XDECREF(pickled);
    return moment;
}

static PyObject *uuid_of(const values_t *values, const unsigned char *from)
{
    PyObject *uuid = NULL, *number = NULL, *shifted = NULL;
    PyObject *upper = PyLong_FromUnsignedLongLong(number_at(from, 8));
    PyObject *lower = PyLong_FromUnsignedLongLong(number_at(from + 8, 8));
    if (upper != NULL && lower != NULL && (shifted = PyNumber_Lshift(upper, values->sixty_four)) != NULL &&
        (number = PyNumber_Or(shifted, lower)) != NULL &&
        (uuid = values->make_uuid((PyTypeObject *)values->uuid_type, 0)) != NULL) {
        put(uuid, values->uuid_int_slot, Py_NewRef(number));
        put(uuid, values->uuid_safety_slot, Py_NewRef(values->unsafe));
    }
    Py_XDECREF(upper);
    Py_XDECREF(lower);
    Py_XDECREF(shifted);
    Py_XDECREF(number);
    return uuid;
}

/* Take the size and count of a list or map; its content must end at `*end`. */
static bool enter_compound(source_t *source, bool wide, Py_ssize_t *count, Py_ssize_t *end)
{
    uint64_t size, items;
    if (!take_length(source, wide, &size) || size > (uint64_t)(source->size - source->at))
        return false;
    *end = source->at + (Py_ssize_t)size;
    if (!take_length(source, wide, &items) || items > (uint64_t)(source->size - source->at))
        return false; /* an item takes a byte at least */
    *count = (Py_ssize_t)items;
    return true;
}

enum { FIRST_ITEMS = 32 };

static PyObject *read_list(source_t *source, bool wide, long depth)
{
    Py_ssize_t count, end;
    if (depth >= source->values->max_depth || !enter_compound(source, wide, &count, &end))
        return NULL;
    /* The first items are read before the list is made, which then has its size at once. A list with items that are still
       to be read would have NULL in it, which other code sees by way of the garbage collector. Behind the first ones the
       list grows: bytes that lie about `count` must not make it large. */
    PyObject *first[FIRST_ITEMS];
    Py_ssize_t read = 0, at_once = count < FIRST_ITEMS ? count : FIRST_ITEMS;
    while (read < at_once && (first[read] = read_value(source, depth + 1)) != NULL)
        read++;
    PyObject *list = read == at_once ? PyList_New(at_once) : NULL;
    for (Py_ssize_t i = 0; i < read; i++) {
        if (list == NULL)
            Py_DECREF(first[i]);
        else
            PyList_SetItem(list, i, first[i]);
    }
    for (Py_ssize_t i = at_once; list != NULL && i < count; i++) {
        PyObject *item = read_value(source, depth + 1);
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    if (source->at != end)
        Py_CLEAR(list);
    return list;
}

/* Return the key that begins here. If `of_section` is not 0, it says which kinds of keys the section's map may have. */
static PyObject *read_key(source_t *source, long depth, int of_section)
{
    if (source->at >= source->size)
        return NULL;
    unsigned char code = source->bytes[source->at];
    if ((code & 0xEF) == 0xA1) {
        source->at++;
        return read_key_text(source, code & 0x10);
    }
    if (of_section && (code & 0xEF) == 0xA3) {
        source->at++;
        return read_name(source, code & 0x10);
    }
    PyObject *key = of_section ? read_plain(source, depth) : read_value(source, depth);
    if (of_section && key != NULL && !PyUnicode_CheckExact(key) && !(of_section & NUMBER && PyLong_CheckExact(key)))
        Py_CLEAR(key);
    return key;
}

static PyObject *read_map(source_t *source, bool wide, long depth, int of_section)
{
    Py_ssize_t count, end;
    if (depth >= source->values->max_depth || !enter_compound(source, wide, &count, &end) || count & 1)
        return NULL;
    PyObject *map = PyDict_New();
    if (map == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < count; i += 2) {
        PyObject *value = NULL, *key = read_key(source, depth + 1, of_section);
        int failed = key == NULL || (value = read_value(source, depth + 1)) == NULL || PyDict_SetItem(map, key, value) < 0;
        Py_XDECREF(key);
        Py_XDECREF(value);
        if (failed) {
            Py_DECREF(map);
            return NULL;
        }
    }
    if (source->at != end || PyDict_Size(map) * 2 != count)
        Py_CLEAR(map);
    return map;
}

/* Return what `read_value` in Python makes of the rare value that begins at `from`. */
static PyObject *read_rare(source_t *source, Py_ssize_t from, long depth)
{
    Py_ssize_t at;
    PyObject *value, *read = PyObject_CallFunction(source->values->read_in_python, "Onl", source->buffer, from, depth);
    if (read == NULL)
        return NULL;
    if (PyArg_ParseTuple(read, "On", &value, &at) && at > from && at <= source->size) {
        source->at = at;
        Py_INCREF(value);
    } else
        value = NULL;
    Py_DECREF(read);
    return value;
}

/* The types of numbers that are not Python's own, in the order of `types.NARROW_TYPES`; `LONG` stands for int. */
enum { UBYTE, USHORT, UINT, ULONG, BYTE, SHORT, INT, FLOAT, LONG };

/* Return `number`, whose reference is taken over, as one of a narrow type. Its `__new__` is passed over: all numbers that
   the wire can have in its bytes are in its range. */
static PyObject *narrowed(const values_t *values, int type, PyObject *number)
{
    PyObject *made = NULL, *given = number == NULL ? NULL : PyTuple_Pack(1, number);
    PyTypeObject *of = (PyTypeObject *)PyTuple_GetItem(values->narrow, type);
    if (given != NULL)
        made = (type == FLOAT ? values->make_float : values->make_int)(of, given, NULL);
    Py_XDECREF(given);
    Py_XDECREF(number);
    return made;
}

static PyObject *read_float(source_t *source, int width)
{
    const unsigned char *from = take(source, (uint64_t)width);
    if (from == NULL)
        return NULL;
    uint64_t bits = number_at(from, width);
    double wide;
    float narrow;
    if (width == 8) {
        memcpy(&wide, &bits, sizeof wide);
    } else {
        uint32_t half = (uint32_t)bits;
        memcpy(&narrow, &half, sizeof narrow);
        wide = narrow;
    }
    return PyFloat_FromDouble(wide);
}

static PyObject *read_number(source_t *source, int width, int type, bool plain)
{
    const unsigned char *from = take(source, (uint64_t)width);
    if (from == NULL)
        return NULL;
    uint64_t bits = number_at(from, width);
    int unused = 64 - 8 * width;
    PyObject *number = type <= ULONG ? PyLong_FromUnsignedLongLong(bits)
                                     : PyLong_FromLongLong((int64_t)(bits << unused) >> unused);
    return plain || type == LONG ? number : narrowed(source->values, type, number);
}

static PyObject *read_any(source_t *source, long depth, bool plain)
{
    Py_ssize_t from = source->at;
    const unsigned char *content, *code = take(source, 1);
    if (code == NULL)
        return NULL;
    switch (*code) {
    case 0x40:
        return Py_NewRef(Py_None);
    case 0x41:
        return Py_NewRef(Py_True);
    case 0x42:
        return Py_NewRef(Py_False);
    case 0x43:
        return read_number(source, 0, UINT, plain);
    case 0x44:
        return read_number(source, 0, ULONG, plain);
    case 0x45:
        return PyList_New(0);
    case 0x50:
        return read_number(source, 1, UBYTE, plain);
    case 0x51:
        return read_number(source, 1, BYTE, plain);
    case 0x52:
        return read_number(source, 1, UINT, plain);
    case 0x53:
        return read_number(source, 1, ULONG, plain);
    case 0x54:
        return read_number(source, 1, INT, plain);
    case 0x55:
        return read_number(source, 1, LONG, plain);
    case 0x56:
        content = take(source, 1);
        return content == NULL || *content > 1 ? NULL : PyBool_FromLong(*content);
    case 0x60:
        return read_number(source, 2, USHORT, plain);
    case 0x61:
        return read_number(source, 2, SHORT, plain);
    case 0x70:
        return read_number(source, 4, UINT, plain);
    case 0x71:
        return read_number(source, 4, INT, plain);
    case 0x72:
        return narrowed(source->values, FLOAT, read_float(source, 4));
    case 0x80:
        return read_number(source, 8, ULONG, plain);
    case 0x81:
        return read_number(source, 8, LONG, plain);
    case 0x82:
        return read_float(source, 8);
    case 0x83:
        content = take(source, 8);
        return content == NULL ? NULL : datetime_of(source->values, (int64_t)number_at(content, 8));
    case 0x98:
        content = take(source, 16);
        return content == NULL ? NULL : uuid_of(source->values, content);
    case 0xA0:
    case 0xB0:
        return read_binary(source, *code & 0x10);
    case 0xA1:
    case 0xB1:
        return read_text(source, *code & 0x10);
    case 0xA3:
    case 0xB3:
        return read_symbol(source, *code & 0x10);
    case 0xC0:
    case 0xD0:
        return read_list(source, *code & 0x10, depth);
    case 0xC1:
    case 0xD1:
        return read_map(source, *code & 0x10, depth, 0);
    default: /* described values, arrays, decimals, characters, and unknown constructors */
        return read_rare(source, from, depth);
    }
}

static PyObject *read_value(source_t *source, long depth)
{
    return read_any(source, depth, false);
}

/* Read the value of a field or key, whose place tells its type: a number is a plain int. */
static PyObject *read_plain(source_t *source, long depth)
{
    return read_any(source, depth, true);
}

/* ------------------------------------------------------------------------------------------------------------ sections */

enum { HEADER = 0x70, MESSAGE_ANNOTATIONS = 0x72, PROPERTIES, APPLICATION_PROPERTIES, DATA, SEQUENCE, VALUE, FOOTER };

/* Take the start of the next section in its usual form, and return its code; 0 for any other start. */
static int take_section(source_t *source, int before)
{
    const unsigned char *start = take(source, 3);
    if (start == NULL || start[0] != 0 || start[1] != 0x53)
        return 0;
    return start[2] > before && start[2] >= HEADER && start[2] <= FOOTER ? start[2] : 0;
}
