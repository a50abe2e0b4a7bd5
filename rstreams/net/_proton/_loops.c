/* The loops over the engine that run once a message, many messages a call. The tables of methods document them.

   It does not link to the engine: `bind` gives it the addresses of the engine's functions in the loaded cproton_ffi.

   The caller holds the GIL and owns the connection; no function here calls back into Python. A link, a delivery or a
   collector is an int, its address: only the engine's own pointers may be passed in, and only while they are alive. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../../_codec/_body_head.h"

/* ------------------------------------------------------------------------------------------------------- the engine */

/* As python-qpid-proton 0.40 declares them in cproton.h, with every pointer untyped. */
typedef struct {
    size_t size;
    const char *start;
} bytes_t;

static struct {
    void *(*collector_peek)(void *collector);
    bool (*collector_pop)(void *collector);
    int (*event_type)(void *event);
    void *(*event_link)(void *event);
    void *(*delivery)(void *link, bytes_t tag);
    bool (*delivery_aborted)(void *delivery);
    bool (*delivery_partial)(void *delivery);
    size_t (*delivery_pending)(void *delivery);
    uint64_t (*delivery_remote_state)(void *delivery);
    void (*delivery_settle)(void *delivery);
    bool (*delivery_settled)(void *delivery);
    void (*delivery_update)(void *delivery, uint64_t state);
    bool (*link_advance)(void *link);
    void *(*link_current)(void *link);
    ptrdiff_t (*link_recv)(void *link, char *bytes, size_t size);
    ptrdiff_t (*link_send)(void *link, const char *bytes, size_t size);
    void *(*link_session)(void *link);
    ptrdiff_t (*transport_capacity)(void *transport);
    ptrdiff_t (*transport_peek)(void *transport, char *to, size_t size);
    ptrdiff_t (*transport_pending)(void *transport);
    void (*transport_pop)(void *transport, size_t size);
    ptrdiff_t (*transport_push)(void *transport, const char *from, size_t size);
} pn;

/* Their names and declarations, in the order of the table above; `loops.py` compares them. */
static const char *const FUNCTIONS[][2] = {
    {"pn_collector_peek", "struct pn_event_t *(*)(struct pn_collector_t *)"},
    {"pn_collector_pop", "_Bool(*)(struct pn_collector_t *)"},
    {"pn_event_type", "pn_event_type_t(*)(struct pn_event_t *)"},
    {"pn_event_link", "struct pn_link_t *(*)(struct pn_event_t *)"},
    {"pn_delivery", "struct pn_delivery_t *(*)(struct pn_link_t *, struct pn_bytes_t)"},
    {"pn_delivery_aborted", "_Bool(*)(struct pn_delivery_t *)"},
    {"pn_delivery_partial", "_Bool(*)(struct pn_delivery_t *)"},
    {"pn_delivery_pending", "size_t(*)(struct pn_delivery_t *)"},
    {"pn_delivery_remote_state", "uint64_t(*)(struct pn_delivery_t *)"},
    {"pn_delivery_settle", "void(*)(struct pn_delivery_t *)"},
    {"pn_delivery_settled", "_Bool(*)(struct pn_delivery_t *)"},
    {"pn_delivery_update", "void(*)(struct pn_delivery_t *, uint64_t)"},
    {"pn_link_advance", "_Bool(*)(struct pn_link_t *)"},
    {"pn_link_current", "struct pn_delivery_t *(*)(struct pn_link_t *)"},
    {"pn_link_recv", "ssize_t(*)(struct pn_link_t *, char *, size_t)"},
    {"pn_link_send", "ssize_t(*)(struct pn_link_t *, char *, size_t)"},
    {"pn_link_session", "struct pn_session_t *(*)(struct pn_link_t *)"},
    {"pn_transport_capacity", "ssize_t(*)(struct pn_transport_t *)"},
    {"pn_transport_peek", "ssize_t(*)(struct pn_transport_t *, char *, size_t)"},
    {"pn_transport_pending", "ssize_t(*)(struct pn_transport_t *)"},
    {"pn_transport_pop", "void(*)(struct pn_transport_t *, size_t)"},
    {"pn_transport_push", "ssize_t(*)(struct pn_transport_t *, char *, size_t)"},
};

enum { COUNT = sizeof(FUNCTIONS) / sizeof(FUNCTIONS[0]) };
_Static_assert(sizeof(pn) == COUNT * sizeof(void (*)(void)), "a declaration for each function");

static PyObject *body_at; /* the function of section_heads.py */
static uint64_t accepted;
static int delivery_event, flow_event;
enum { KINDS = 64 };
static bool is_told[KINDS]; /* kinds of events that stop `note_events` */

static int take_address(PyObject *object, void *to)
{
    void *address = PyLong_AsVoidPtr(object);
    if (address == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a null pointer");
        return 0;
    }
    *(void **)to = address;
    return 1;
}

static PyObject *bind(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *addresses, *others, *function;
    unsigned long long outcome;
    int delivery, flow;
    if (!PyArg_ParseTuple(args, "O!KiiO!O:bind", &PyTuple_Type, &addresses, &outcome, &delivery, &flow, &PyTuple_Type,
                          &others, &function))
        return NULL;
    if (PyTuple_Size(addresses) != COUNT)
        return PyErr_Format(PyExc_ValueError, "%d addresses are needed", (int)COUNT);
    void *table[COUNT];
    for (Py_ssize_t i = 0; i < COUNT; i++)
        if (!take_address(PyTuple_GetItem(addresses, i), &table[i]))
            return NULL;
    bool told[KINDS] = {false};
    for (Py_ssize_t i = 0; i < PyTuple_Size(others); i++) {
        long kind = PyLong_AsLong(PyTuple_GetItem(others, i));
        if (kind < 0 || kind >= KINDS) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "no kind of events");
            return NULL;
        }
        told[kind] = true;
    }
    memcpy(&pn, table, sizeof(pn));
    memcpy(is_told, told, sizeof(is_told));
    Py_XDECREF(body_at);
    body_at = Py_NewRef(function);
    accepted = outcome;
    delivery_event = delivery;
    flow_event = flow;
    return Py_NewRef(Py_None);
}

static bool is_bound(void)
{
    if (pn.delivery == NULL)
        PyErr_SetString(PyExc_RuntimeError, "bind comes first");
    return pn.delivery != NULL;
}

static int append(PyObject *list, PyObject *owned)
{
    if (owned == NULL)
        return -1;
    int failed = PyList_Append(list, owned);
    Py_DECREF(owned);
    return failed;
}

/* Return deliveries, whose addresses are in a bytes object, as a memoryview; `owned` is NULL or taken over. */
static PyObject *as_deliveries(PyObject *owned)
{
    PyObject *view = owned == NULL ? NULL : PyMemoryView_FromObject(owned);
    PyObject *deliveries = view == NULL ? NULL : PyObject_CallMethod(view, "cast", "s", "P");
    Py_XDECREF(view);
    Py_XDECREF(owned);
    return deliveries;
}

/* Give the memory of an object back, and its type. */
static void free_object(PyObject *object, PyTypeObject *type)
{
    freefunc give_back = (freefunc)PyType_GetSlot(type, Py_tp_free);
    give_back(object);
    Py_DECREF(type);
}

#include "_frame_walk.h"
#include "_beside.h"
#include "_output.h"
#include "_arrivals.h"
#include "_transfers.h"
#include "_incoming.h"

/* --------------------------------------------------------------------------------------------------------- settling */

static void settle_one(void *delivery, uint64_t state)
{
    pn.delivery_update(delivery, state);
    pn.delivery_settle(delivery);
}

static PyObject *settle(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *deliveries;
    unsigned long long state;
    if (!PyArg_ParseTuple(args, "OK:settle", &deliveries, &state))
        return NULL;
    if (PyList_Check(deliveries)) {
        for (Py_ssize_t i = 0; i < PyList_Size(deliveries); i++) {
            void *delivery;
            if (!take_address(PyList_GetItem(deliveries, i), &delivery))
                return NULL;
            settle_one(delivery, state);
        }
        return Py_NewRef(Py_None);
    }
    Py_buffer view;
    if (PyObject_GetBuffer(deliveries, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    for (Py_ssize_t i = 0; i < view.len / (Py_ssize_t)sizeof(void *); i++)
        settle_one(((void *const *)view.buf)[i], state);
    PyBuffer_Release(&view);
    return Py_NewRef(Py_None);
}

/* ---------------------------------------------------------------------------------------------------------- sending */

#include "_sending.h"

static PyObject *settle_accepted(PyObject *Py_UNUSED(self), PyObject *args)
{
    Py_buffer view;
    if (!PyArg_ParseTuple(args, "y*:settle_accepted", &view))
        return NULL;
    Py_ssize_t count = view.len / (Py_ssize_t)sizeof(void *), settled = 0;
    void *const *deliveries = view.buf;
    for (; settled < count && pn.delivery_remote_state(deliveries[settled]) == accepted; settled++) {
        if (!pn.delivery_settled(deliveries[settled]))
            pn.delivery_update(deliveries[settled], accepted); /* a receiver that settles second hears its outcome again */
        pn.delivery_settle(deliveries[settled]);
    }
    PyBuffer_Release(&view);
    return PyLong_FromSsize_t(settled);
}

/* ----------------------------------------------------------------------------------------------------------- events */

static int note(PyObject *noted, void *link, Py_ssize_t deliveries, bool flow)
{
    if (link == NULL || (deliveries == 0 && !flow))
        return 0;
    return append(noted, Py_BuildValue("NnO", PyLong_FromVoidPtr(link), deliveries, flow ? Py_True : Py_False));
}

static PyObject *note_events(PyObject *Py_UNUSED(self), PyObject *args)
{
    void *collector, *event, *link = NULL;
    Py_ssize_t deliveries = 0;
    bool flow = false;
    if (!PyArg_ParseTuple(args, "O&:note_events", take_address, &collector))
        return NULL;
    PyObject *noted = PyList_New(0);
    if (noted == NULL)
        return NULL;
    while ((event = pn.collector_peek(collector)) != NULL) {
        int kind = pn.event_type(event);
        if (kind != delivery_event && kind != flow_event) {
            if (kind >= 0 && kind < KINDS && is_told[kind])
                break;
            pn.collector_pop(collector);
            continue;
        }
        void *where = pn.event_link(event);
        if (where != link) {
            if (note(noted, link, deliveries, flow) < 0)
                goto failed;
            link = where;
            deliveries = 0;
            flow = false;
        }
        if (kind == delivery_event)
            deliveries++;
        else
            flow = true;
        pn.collector_pop(collector);
    }
    if (note(noted, link, deliveries, flow) < 0)
        goto failed;
    return noted;
failed:
    Py_DECREF(noted);
    return NULL;
}

/* ---------------------------------------------------------------------------------------------------------- module */

static PyMethodDef methods_of_arrivals[] = {
    {"close", close_arrivals, METH_NOARGS,
     "close(): throw away all messages, and what is to come: the link is gone"},
    {"current", current, METH_NOARGS,
     "current() -> (size, format): how many bytes of the current delivery were read, and its message-format"},
    {"drop", drop, METH_NOARGS, "drop(): throw away what has come of the current delivery, and what is to come"},
    {"read", read_run, METH_VARARGS,
     "read(most, most_bytes) -> (deliveries, messages, settled, is_split, starved): take whole deliveries, all settled or all not,\n"
     "up to one with more bytes (0: of any size) or of another message-format than 0; is_split: they are one message in two pieces;\n"
     "starved: the last one has the state received."},
    {"read_in_parts", read_in_parts, METH_NOARGS,
     "read_in_parts(): have messages read by read_part"},
    {"read_on", read_on, METH_NOARGS,
     "read_on(): read what the engine has of the current delivery, which opens the session's window again"},
    {"read_part", read_part, METH_NOARGS,
     "read_part() -> (delivery, bytes, settled, more, aborted): what has come of the current delivery; None for nothing"},
    {"remove", remove_current, METH_NOARGS, "remove(): the delivery that was current has been settled unread"},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef methods_of_loops[] = {
    {"arrivals", new_arrivals, METH_VARARGS,
     "arrivals(link, beside): the messages that come on a link; payloads go beside the engine, or through it"},
    {"begin", begin, METH_VARARGS,
     "begin(link, number) -> deliveries: begin a message in parts, tagged with the low 32 bits of its number"},
    {"begin_session", begin_session, METH_VARARGS,
     "begin_session(channel): the peer has begun a session, or answered one; no transfer has come in it"},
    {"end_frames", end_frames, METH_NOARGS,
     "end_frames(): give the engine the beginning of a transfer that does not come whole, because nothing more comes"},
    {"expect", expect, METH_VARARGS,
     "expect(channel, handle, arrivals): the peer has attached a link on which it sends; None: the link is gone"},
    {"feed", feed, METH_VARARGS,
     "feed(data): give the engine bytes as they are; it takes none when it has failed"},
    {"forget", forget, METH_VARARGS,
     "forget(owner): a link, or a delivery in parts, is gone; what is in the output already goes out"},
    {"is_out_of_order", is_out_of_order, METH_NOARGS,
     "is_out_of_order(): whether take has stopped at a transfer that has another delivery-id than is due"},
    {"note_events", note_events, METH_VARARGS,
     "note_events(collector) -> [(link, deliveries, flow)]: take events up to the first one of the kinds given to bind"},
    {"output", output, METH_VARARGS,
     "output(room, enough, told, on_frame) -> (pieces, used, is_full): the engine's bytes for the peer. Large messages and parts\n"
     "are pieces by themselves, up to the one with which they are `enough` bytes; the others take `used` bytes of the room.\n"
     "is_full: there may be more. on_frame hears the frames with a performative 0x10 + n whose bit n is in\n"
     "told; another frame that it returns goes out in place of the frame."},
    {"part_bytes", part_bytes, METH_NOARGS,
     "part_bytes(): how many bytes of parts wait, on all links"},
    {"rooms", rooms, METH_NOARGS,
     "rooms() -> memoryviews: where the next bytes may be written, up to the next call of another function"},
    {"send", send_run, METH_VARARGS,
     "send(link, numbers, messages, settled, are_bodies, most) -> deliveries: send messages, each in a frame, up to one of more\n"
     "than `most` bytes. They are tagged with the low 32 bits of their numbers. are_bodies: they are not encoded, each is a body."},
    {"send_part", send_part, METH_VARARGS,
     "send_part(link, part, at, is_body, more, settled, most, room) -> at: send what there is room for of a part of the current\n"
     "delivery, from `at` on, in frames with at most `most` bytes of it. more: further parts come. The frame in which the room ends\n"
     "goes whole. -1: nothing of the part is left."},
    {"settle", settle, METH_VARARGS,
     "settle(deliveries, state): give each delivery the outcome, and settle it"},
    {"settle_accepted", settle_accepted, METH_VARARGS,
     "settle_accepted(deliveries): settle the first ones that the peer has accepted; return how many"},
    {"take", take, METH_VARARGS,
     "take(data, at, most) -> (at, told): give the engine frames of at most `most` bytes, without the payloads of messages.\n"
     "told, above 0: at `at` a frame of so many bytes must be read, and may end behind the data. 0: there are too few bytes to tell.\n"
     "-1: no frame can begin there."},
    {"take_rooms", take_rooms, METH_VARARGS,
     "take_rooms(came) -> bytes: take bytes that were written into the rooms; return those that are to be taken by take"},
    {"waiting", waiting, METH_VARARGS,
     "waiting(session): how many bytes of messages of one frame wait"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot arrivals_slots[] = {
    {Py_tp_dealloc, free_arrivals},
    {Py_tp_methods, methods_of_arrivals},
    {0, NULL},
};

static PyType_Slot loops_slots[] = {
    {Py_tp_new, new_beside},
    {Py_tp_dealloc, free_beside},
    {Py_tp_methods, methods_of_loops},
    {0, NULL},
};

enum { SEALED = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE };
static PyType_Spec arrivals_spec = {"rstreams.net._proton._loops.Arrivals", sizeof(struct arrivals), 0,
                                    SEALED | Py_TPFLAGS_DISALLOW_INSTANTIATION, arrivals_slots};
static PyType_Spec loops_spec = {"rstreams.net._proton._loops.Loops", sizeof(struct beside), 0, SEALED, loops_slots};

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/* loops.py compares this number; it changes with the arguments or the result of a function. */
enum { INTERFACE = 14 };

static int add_constants(PyObject *module)
{
    if (PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0)
        return -1;
    PyObject *functions = PyTuple_New(COUNT);
    for (Py_ssize_t i = 0; functions != NULL && i < COUNT; i++) {
        PyObject *function = Py_BuildValue("ss", FUNCTIONS[i][0], FUNCTIONS[i][1]);
        if (function == NULL || PyTuple_SetItem(functions, i, function) < 0)
            Py_CLEAR(functions);
    }
    int failed = functions == NULL ? -1 : PyModule_AddObjectRef(module, "FUNCTIONS", functions);
    Py_XDECREF(functions);
    PyObject *loops_type = failed ? NULL : PyType_FromModuleAndSpec(module, &loops_spec, NULL);
    failed = loops_type == NULL ? -1 : PyModule_AddObjectRef(module, "Loops", loops_type);
    Py_XDECREF(loops_type);
    if (!failed && arrivals_type == NULL)
        arrivals_type = (PyTypeObject *)PyType_FromSpec(&arrivals_spec);
    return failed || arrivals_type == NULL ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_constants},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "rstreams.net._proton._loops",
    .m_doc = "The loops over the engine in C: see loops.py.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__loops(void)
{
    return PyModuleDef_Init(&definition);
}
