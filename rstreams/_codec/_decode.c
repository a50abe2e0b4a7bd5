/* Encoded AMQP values and messages to Python: see decode.py and rstreams/message.py, which have the same in Python.

   Optional, and for the common cases: where a value is malformed, or of a kind that is rare, the function in Python gets
   the whole of it, and returns or raises what it always does. So both give the same values and the same errors.

   Nothing here trusts a length: `take` is the only way forward, and it looks at the end. Values nest as deep as in Python. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------ what `bind` is given */

enum { MAX_FIELDS = 32, MAX_LIST = 16 };

/* What a field of a section may hold; `message_fields.py` uses the same numbers. */
enum { TEXT = 1, NUMBER = 2, BINARY = 4, UNIQUE_ID = 8, FLAG = 16, TIME = 32, SECONDS = 64 };

typedef struct {
    Py_ssize_t at; /* where the object of a message keeps it, in bytes */
    int kinds;
    unsigned long long limit;
} field_t;

typedef struct {
    Py_ssize_t count;
    field_t fields[MAX_LIST];
} list_section_t;

static PyObject *body_in_python, *message_in_python, *read_in_python;
static PyObject *symbol_type, *uuid_type, *datetime_type, *utc, *unsafe;
static PyObject *sixty_four;
static allocfunc make_uuid, make_message;
static PyTypeObject *message_type;
static struct {
    Py_ssize_t at;
    PyObject *value; /* NULL for an empty dict of its own */
} defaults[MAX_FIELDS];
static Py_ssize_t default_count, body_slot, annotations_slot, properties_slot, uuid_int_slot, uuid_safety_slot;
static list_section_t header, properties;
static long max_depth;

/* --------------------------------------------------------------------------------------------------------- the cursor */

typedef struct {
    const unsigned char *bytes;
    Py_ssize_t size, at;
    PyObject *buffer;
} source_t;

/* Return the next `count` bytes and go behind them; NULL if there are not so many. */
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

/* Go behind the value that begins here, without a look into it. */
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

/* Give `object` the `value`, which it takes over, as the attribute that is kept at `slot`. */
static void put(PyObject *object, Py_ssize_t slot, PyObject *value)
{
    PyObject **place = (PyObject **)((char *)object + slot), *before = *place;
    *place = value;
    Py_XDECREF(before);
}

/* A `read_...` function returns a new reference, or NULL: with a Python exception, or without one for bytes that are
   left to Python. */

static PyObject *read_value(source_t *source, long depth);

static PyObject *read_text(source_t *source, bool wide)
{
    uint64_t length;
    const unsigned char *from;
    if (!take_length(source, wide, &length) || (from = take(source, length)) == NULL)
        return NULL;
    return PyUnicode_DecodeUTF8((const char *)from, (Py_ssize_t)length, NULL);
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
    symbol = PyObject_CallFunctionObjArgs(symbol_type, name, NULL);
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
static PyObject *datetime_of(int64_t milliseconds)
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
    /* The form in which datetimes are pickled makes one in a third of the time that eight numbers take. */
    const char state[10] = {(char)(year >> 8), (char)year, (char)month, (char)day, (char)(seconds / 3600),
                            (char)(seconds / 60 % 60), (char)(seconds % 60), (char)(microseconds >> 16),
                            (char)(microseconds >> 8), (char)microseconds};
    PyObject *moment = NULL, *pickled = PyBytes_FromStringAndSize(state, sizeof state);
    if (pickled != NULL)
        moment = PyObject_CallFunctionObjArgs(datetime_type, pickled, utc, NULL);
    Py_XDECREF(pickled);
    return moment;
}

static PyObject *uuid_of(const unsigned char *from)
{
    PyObject *uuid = NULL, *number = NULL, *shifted = NULL;
    PyObject *upper = PyLong_FromUnsignedLongLong(number_at(from, 8));
    PyObject *lower = PyLong_FromUnsignedLongLong(number_at(from + 8, 8));
    if (upper != NULL && lower != NULL && (shifted = PyNumber_Lshift(upper, sixty_four)) != NULL &&
        (number = PyNumber_Or(shifted, lower)) != NULL && (uuid = make_uuid((PyTypeObject *)uuid_type, 0)) != NULL) {
        put(uuid, uuid_int_slot, Py_NewRef(number));
        put(uuid, uuid_safety_slot, Py_NewRef(unsafe));
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

static PyObject *read_list(source_t *source, bool wide, long depth)
{
    Py_ssize_t count, end;
    if (depth >= max_depth || !enter_compound(source, wide, &count, &end))
        return NULL;
    PyObject *list = PyList_New(count);
    if (list == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = read_value(source, depth + 1);
        if (item == NULL) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SetItem(list, i, item);
    }
    if (source->at != end)
        Py_CLEAR(list);
    return list;
}

/* Return the key that begins here; in a section `of_section` it is a str or, there, an int. */
static PyObject *read_key(source_t *source, long depth, int of_section)
{
    if (!of_section)
        return read_value(source, depth);
    if (source->at >= source->size)
        return NULL;
    unsigned char code = source->bytes[source->at];
    if ((code & 0xEF) == 0xA3) {
        source->at++;
        return read_name(source, code & 0x10);
    }
    PyObject *key = read_value(source, depth);
    if (key != NULL && !PyUnicode_CheckExact(key) && !(of_section & NUMBER && PyLong_CheckExact(key)))
        Py_CLEAR(key);
    return key;
}

static PyObject *read_map(source_t *source, bool wide, long depth, int of_section)
{
    Py_ssize_t count, end;
    if (depth >= max_depth || !enter_compound(source, wide, &count, &end) || count & 1)
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
    PyObject *value = NULL, *read = PyObject_CallFunction(read_in_python, "Onl", source->buffer, from, depth);
    if (read != NULL) {
        source->at = PyLong_AsSsize_t(PyTuple_GetItem(read, 1));
        value = Py_NewRef(PyTuple_GetItem(read, 0));
        Py_DECREF(read);
    }
    return value;
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

static PyObject *read_number(source_t *source, int width, bool is_signed)
{
    const unsigned char *from = take(source, (uint64_t)width);
    if (from == NULL)
        return NULL;
    uint64_t bits = number_at(from, width);
    if (!is_signed)
        return PyLong_FromUnsignedLongLong(bits);
    int unused = 64 - 8 * width;
    return PyLong_FromLongLong((int64_t)(bits << unused) >> unused);
}

static PyObject *read_value(source_t *source, long depth)
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
    case 0x44:
        return PyLong_FromLong(0);
    case 0x45:
        return PyList_New(0);
    case 0x50:
    case 0x52:
    case 0x53:
        return read_number(source, 1, false);
    case 0x51:
    case 0x54:
    case 0x55:
        return read_number(source, 1, true);
    case 0x56:
        content = take(source, 1);
        return content == NULL || *content > 1 ? NULL : PyBool_FromLong(*content);
    case 0x60:
        return read_number(source, 2, false);
    case 0x61:
        return read_number(source, 2, true);
    case 0x70:
        return read_number(source, 4, false);
    case 0x71:
        return read_number(source, 4, true);
    case 0x72:
        return read_float(source, 4);
    case 0x80:
        return read_number(source, 8, false);
    case 0x81:
        return read_number(source, 8, true);
    case 0x82:
        return read_float(source, 8);
    case 0x83:
        content = take(source, 8);
        return content == NULL ? NULL : datetime_of((int64_t)number_at(content, 8));
    case 0x98:
        content = take(source, 16);
        return content == NULL ? NULL : uuid_of(content);
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
    default: /* described values, arrays, decimals, characters, and what is no AMQP */
        return read_rare(source, from, depth);
    }
}

/* ------------------------------------------------------------------------------------------------------------ sections */

enum { HEADER = 0x70, MESSAGE_ANNOTATIONS = 0x72, PROPERTIES, APPLICATION_PROPERTIES, DATA, SEQUENCE, VALUE, FOOTER };

/* Take the start of the next section, as nearly everybody writes it; return its code, 0 for any other start. */
static int take_section(source_t *source, int before)
{
    const unsigned char *start = take(source, 3);
    if (start == NULL || start[0] != 0 || start[1] != 0x53)
        return 0;
    return start[2] > before && start[2] >= HEADER && start[2] <= FOOTER ? start[2] : 0;
}

static const char FOOTED[3] = {0, 0x53, FOOTER};

/* Return the body whose section is `code`; NULL if it is of several sections. */
static PyObject *read_body(source_t *source, int code)
{
    PyObject *body = NULL;
    if (code == VALUE)
        return read_value(source, 0);
    const unsigned char *form = code == DATA ? take(source, 1) : NULL;
    if (form == NULL || (*form != 0xA0 && *form != 0xB0) || (body = read_binary(source, *form == 0xB0)) == NULL)
        return NULL;
    if (source->at < source->size && (source->size - source->at < 3 || memcmp(source->bytes + source->at, FOOTED, 3) != 0))
        Py_CLEAR(body); /* another Data section, or what is no section */
    return body;
}

/* Return `value`, which it takes over, as the field may hold it; NULL if the field cannot be that. */
static PyObject *allowed(PyObject *value, const field_t *field)
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
    else if ((PyObject *)Py_TYPE(value) == uuid_type)
        fits = field->kinds & UNIQUE_ID;
    else if ((PyObject *)Py_TYPE(value) == datetime_type)
        fits = field->kinds & TIME;
    else
        fits = false;
    if (!fits)
        Py_CLEAR(value);
    return value;
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
        if (source->at >= source->size)
            return false;
        unsigned char kind = source->bytes[source->at];
        if (kind == 0x40) {
            source->at++;
            continue;
        }
        PyObject *value;
        if ((kind & 0xEF) == 0xA3) {
            source->at++;
            value = read_name(source, kind & 0x10);
        } else
            value = read_value(source, 1);
        if (value == NULL || (value = allowed(value, &section->fields[i])) == NULL)
            return false;
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

static bool read_sections(source_t *source, PyObject *message)
{
    int code = 0;
    while (source->at < source->size) {
        code = take_section(source, code);
        bool done;
        switch (code) {
        case 0:
            return false;
        case HEADER:
            done = read_fields(source, message, &header);
            break;
        case MESSAGE_ANNOTATIONS:
            done = read_pairs(source, message, annotations_slot, TEXT | NUMBER);
            break;
        case PROPERTIES:
            done = read_fields(source, message, &properties);
            break;
        case APPLICATION_PROPERTIES:
            done = read_pairs(source, message, properties_slot, TEXT);
            break;
        case DATA:
        case SEQUENCE:
        case VALUE: {
            PyObject *body = read_body(source, code);
            done = body != NULL;
            if (done)
                put(message, body_slot, body);
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

/* ------------------------------------------------------------------------------------------------------ the functions */

/* Let Python have the whole of it, unless what happened is nothing that the bytes have caused. */
static PyObject *leave_to(PyObject *in_python, PyObject *encoded)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
        return NULL;
    PyErr_Clear();
    return PyObject_CallFunctionObjArgs(in_python, encoded, NULL);
}

static bool is_bound(void)
{
    if (message_type != NULL)
        return true;
    PyErr_SetString(PyExc_RuntimeError, "bind() has not been called");
    return false;
}

static source_t source_of(PyObject *encoded)
{
    return (source_t){(const unsigned char *)PyBytes_AsString(encoded), PyBytes_Size(encoded), 0, encoded};
}

PyDoc_STRVAR(decode_body_doc, "decode_body(encoded): as in rstreams.message.");

static PyObject *decode_body(PyObject *Py_UNUSED(module), PyObject *encoded)
{
    if (!is_bound())
        return NULL;
    if (PyBytes_CheckExact(encoded)) {
        source_t source = source_of(encoded);
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
    return leave_to(body_in_python, encoded);
}

PyDoc_STRVAR(decode_message_doc, "decode_message(encoded): as in rstreams.message.");

static PyObject *decode_message(PyObject *Py_UNUSED(module), PyObject *encoded)
{
    if (!is_bound())
        return NULL;
    if (PyBytes_CheckExact(encoded)) {
        source_t source = source_of(encoded);
        PyObject *message = make_message(message_type, 0);
        if (message == NULL)
            return NULL;
        bool whole = read_sections(&source, message);
        for (Py_ssize_t i = 0; whole && i < default_count; i++) {
            PyObject **place = (PyObject **)((char *)message + defaults[i].at);
            if (*place == NULL)
                *place = defaults[i].value == NULL ? PyDict_New() : Py_NewRef(defaults[i].value);
            whole = *place != NULL;
        }
        if (whole)
            return message;
        Py_DECREF(message);
    }
    return leave_to(message_in_python, encoded);
}

/* --------------------------------------------------------------------------------------------------------------- bind */

/* Return where objects of `type` keep the attribute `name`, a slot, in bytes; -1 with an exception if nowhere.

   A pointer that nothing else is equal to is put there, and looked for. */
static Py_ssize_t slot_of(PyTypeObject *type, PyObject *name)
{
    Py_ssize_t found = -1;
    allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *sentinel = PyList_New(0), *object = make(type, 0);
    PyObject *told = PyObject_GetAttrString((PyObject *)type, "__basicsize__");
    Py_ssize_t size = told == NULL ? -1 : PyLong_AsSsize_t(told);
    if (sentinel != NULL && object != NULL && size >= 0 && PyObject_GenericSetAttr(object, name, sentinel) == 0)
        for (Py_ssize_t at = sizeof(PyObject); at + (Py_ssize_t)sizeof(void *) <= size && found < 0; at += sizeof(void *))
            if (*(PyObject **)((char *)object + at) == sentinel)
                found = at;
    Py_XDECREF(told);
    Py_XDECREF(object);
    Py_XDECREF(sentinel);
    if (found < 0 && !PyErr_Occurred())
        PyErr_Format(PyExc_AttributeError, "%S is not a slot", name);
    return found;
}

PyDoc_STRVAR(slots_doc, "slots(type, names): return where objects of `type` keep these attributes, as numbers for `bind`.");

static PyObject *slots(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *type, *names;
    if (!PyArg_ParseTuple(args, "O!O!:slots", &PyType_Type, &type, &PyList_Type, &names))
        return NULL;
    PyObject *found = PyList_New(0);
    for (Py_ssize_t i = 0; found != NULL && i < PyList_Size(names); i++) {
        Py_ssize_t at = slot_of((PyTypeObject *)type, PyList_GetItem(names, i));
        PyObject *slot = at < 0 ? NULL : PyLong_FromSsize_t(at);
        if (slot == NULL || PyList_Append(found, slot) < 0)
            Py_CLEAR(found);
        Py_XDECREF(slot);
    }
    return found;
}

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

static bool bind_defaults(PyObject *described)
{
    default_count = PyList_Size(described);
    for (Py_ssize_t i = 0; i < default_count && i < MAX_FIELDS; i++) {
        PyObject *value;
        if (!PyArg_ParseTuple(PyList_GetItem(described, i), "nO", &defaults[i].at, &value))
            return false;
        defaults[i].value = value == (PyObject *)&PyDict_Type ? NULL : Py_NewRef(value);
    }
    return default_count <= MAX_FIELDS;
}

PyDoc_STRVAR(bind_doc, "bind(types, in_python, slots, uuid_slots, defaults, header, properties, max_depth): use these types, functions and "
                       "slots from now on, for this process.");

static PyObject *bind(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *type, *of_type, *of_header, *of_properties;
    if (!PyArg_ParseTuple(args, "(OOOOOO)(OOO)(nnn)(nn)O!O!O!l:bind", &type, &symbol_type, &uuid_type, &unsafe, &datetime_type, &utc,
                          &body_in_python, &message_in_python, &read_in_python, &body_slot, &annotations_slot,
                          &properties_slot, &uuid_int_slot, &uuid_safety_slot, &PyList_Type, &of_type, &PyList_Type,
                          &of_header, &PyList_Type, &of_properties, &max_depth))
        return NULL;
    PyObject *const kept[] = {type, symbol_type, uuid_type, unsafe, datetime_type, utc,
                              body_in_python, message_in_python, read_in_python};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        Py_INCREF(kept[i]);
    sixty_four = PyLong_FromLong(64);
    make_uuid = (allocfunc)PyType_GetSlot((PyTypeObject *)uuid_type, Py_tp_alloc);
    make_message = (allocfunc)PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc);
    if (!bind_defaults(of_type) || !bind_list(of_header, &header) || !bind_list(of_properties, &properties)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a message has more fields than this module has room for");
        return NULL;
    }
    message_type = (PyTypeObject *)type;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS, bind_doc},
    {"decode_body", decode_body, METH_O, decode_body_doc},
    {"decode_message", decode_message, METH_O, decode_message_doc},
    {"slots", slots, METH_VARARGS, slots_doc},
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
    .m_name = "rstreams._codec._decode",
    .m_doc = "Encoded AMQP to Python, in C: see decode.py.",
    .m_methods = methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__decode(void)
{
    return PyModuleDef_Init(&definition);
}
