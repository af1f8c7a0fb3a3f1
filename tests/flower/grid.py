"""A grid without a SuperLink: messages go straight to ClientApps in this process, each in a thread of its own."""

import threading
import time

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # as in the process of a ServerApp


class LocalGrid(Grid):
    """apps: by partition id. Every node says who it is; to messages in `silent` those that are dead do not answer, and those that
    are slow, by partition id, after so many seconds."""

    def __init__(self, apps, slow=None):
        self.slow, self.dead, self.silent = slow or {}, set(), {"train", "query.feature"}
        self.lock = threading.Lock()
        self.nodes = {1000 + k: (k, app) for k, app in enumerate(apps)}
        self.answers = {}
        self.seen = []  # (kind, partition id)

    def add(self, node, k, app):
        self.nodes[node] = (k, app)

    def get_node_ids(self):
        return list(self.nodes)

    def push_messages(self, messages):
        ids = []
        for number, message in enumerate(messages):
            name = f"{len(self.seen)}-{number}"
            message.metadata.__dict__["_message_id"] = name
            node = message.metadata.dst_node_id
            self.seen.append((message.metadata.message_type, self.nodes[node][0]))
            threading.Thread(target=self._answer, args=(name, node, message), daemon=True).start()
            ids.append(name)
        return ids

    def _answer(self, name, node, message):
        k, app = self.nodes[node]
        if message.metadata.message_type in self.silent:
            time.sleep(self.slow.get(k, 0.0))
            if node in self.dead:
                return
        context = Context(
            run_id=1, node_id=node, node_config={"partition-id": k}, state=RecordDict(), run_config={}, series_id=1
        )
        try:
            reply = app(message, context)
        except Exception as error:
            reply = Message(Error(code=2, reason=str(error)), reply_to=message)
        with self.lock:
            self.answers[name] = reply

    def pull_messages(self, message_ids):
        with self.lock:
            return [self.answers.pop(name) for name in message_ids if name in self.answers]

    def set_run(self, run):
        raise NotImplementedError

    @property
    def run(self):
        raise NotImplementedError

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None):
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        raise NotImplementedError
