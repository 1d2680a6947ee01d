// The messages of the business that the user has not seen, by chat. A reload of the page keeps them.

const stored = "unread";
let chats = JSON.parse(sessionStorage.getItem(stored) ?? "{}"); // by number and user: ids of messages

const chat = (number, phone) => `${number}/${phone}`;
const save = () => sessionStorage.setItem(stored, JSON.stringify(chats));
const sum = (of) => Object.entries(chats).reduce((total, [name, ids]) => total + (of(name) ? ids.length : 0), 0);

export const unread = {
  add(b) {
    const name = chat(b.phone_number_id, b.phone);
    chats[name] = [...new Set([...(chats[name] ?? []), b.id])];
    save();
  },
  remove(b) {
    const name = chat(b.phone_number_id, b.phone);
    chats[name] = (chats[name] ?? []).filter((id) => id !== b.id);
    save();
  },
  see(number, phone) {
    delete chats[chat(number, phone)];
    save();
  },
  clear() {
    chats = {};
    save();
  },
  of: (number, phone) => (chats[chat(number, phone)] ?? []).length,
  ofNumber: (number) => sum((name) => name.startsWith(`${number}/`)),
  all: () => sum(() => true),
};
