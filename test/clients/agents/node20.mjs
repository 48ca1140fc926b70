// What @platformatic/kafka takes from newer versions of Node than its tests may run on.
Promise.withResolvers ??= () => {
  const all = {}
  all.promise = new Promise((resolve, reject) => Object.assign(all, { resolve, reject }))
  return all
}
